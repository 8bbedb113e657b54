"""Maps of any number of channels as colours."""

from collections.abc import Mapping

import torch
from einops import rearrange
from jaxtyping import Float, UInt8
from torch import Tensor

from vitbook.analysis import token_colors


def as_colors(
    maps: Float[Tensor, "images channels rows columns"],
) -> UInt8[Tensor, "images 3 rows columns"]:
    """The three largest components over all positions as red, green and blue.

    Alike colours are alike numbers in these three, inside one call and not between two.

    Raises:
        ValueError: as :func:`vitbook.analysis.principal_tokens`.
    """
    tokens = rearrange(maps.float(), "n c rows columns -> n (rows columns) c")
    colors = rearrange(
        token_colors(tokens), "n (rows columns) c -> n c rows columns", rows=maps.shape[2]
    )
    return (255 * colors).round().to(torch.uint8)


def pictures(
    maps: Mapping[str, Float[Tensor, "1 channels rows columns"]],
) -> dict[str, UInt8[Tensor, "3 rows columns"]]:
    """Name with "channels × rows × columns" -> the map of one image by :func:`as_colors`."""
    return {
        f"{name}, {' × '.join(map(str, each.shape[1:]))}": as_colors(each)[0]
        for name, each in maps.items()
    }
