"""The mean colours of patches in eight steps a channel: what masked patch prediction predicts."""

from collections.abc import Sequence

import torch
from einops import reduce
from jaxtyping import Float, Int64, UInt8
from torch import Tensor

LEVELS = 8  # 3 bits
STEP = 256 // LEVELS


def mean_colors(
    images: UInt8[Tensor, "batch channels height width"], patch_size: int | Sequence[int]
) -> Float[Tensor, "batch patches channels"]:
    """Mean of each channel over the pixels of each patch, 0 to 255; patches row by row.

    Args:
        images: bytes, as a data set holds them; :func:`to_bytes` makes them of normalised ones.
        patch_size: in pixels; one number, or (height, width).
    """
    height, width = (patch_size,) * 2 if isinstance(patch_size, int) else patch_size
    # Whole numbers, so that a mean of exactly 32 is not a little less.
    sums = reduce(
        images.long(), "b c (rows p) (columns q) -> b (rows columns) c", "sum", p=height, q=width
    )
    return sums / (height * width)


def to_bytes(
    images: Float[Tensor, "*batch channels height width"],
) -> UInt8[Tensor, "*batch channels height width"]:
    """The uint8 images that :func:`vitbook.datasets.normalize` would make these of, rounded."""
    return ((images.float() + 1) * 127.5).round().clamp(0, 255).to(torch.uint8)


def color_classes(
    colors: Float[Tensor, "*patches channels"],
) -> Int64[Tensor, "*patches"]:
    r"""The class of each colour at 3 bits a channel: 512 for red, green and blue, 8 for grey.

    .. math::
        64 \lfloor r / 32 \rfloor + 8 \lfloor g / 32 \rfloor + \lfloor b / 32 \rfloor

    Args:
        colors: each channel from 0 to 255, the first one weighs most.
    """
    weights = LEVELS ** torch.arange(colors.shape[-1] - 1, -1, -1, device=colors.device)
    return ((colors / STEP).floor().long() * weights).sum(dim=-1)
