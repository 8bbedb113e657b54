"""Photographs as a Vision Transformer's tokens see them: touch one, and all its like light up."""

from collections.abc import Sequence

import numpy as np
import torch

from vitbook.analysis import object_mask, principal_tokens, token_colors
from vitbook.figures.parts.drawing import as_array, as_images, base64, patch_at
from vitbook.figures.parts.figure import Figure
from vitbook.figures.parts.jpeg import jpeg

_COMPONENTS = 32
# Of the page: more patches than this make neither a picture nor a page that loads.
_MOST_PATCHES = 12_000
# Cosines up to this one leave a patch dark.
FLOOR = 0.3
# Of black that lies over what is not alike.
DARKEST = 0.8


def alike_patches(
    images,
    tokens,
    grid_size: tuple[int, int],
    *,
    names: Sequence[str],
    start: tuple[int, tuple[int, int]],
    task: str | None = None,
    title: str = "Touch a photograph: what is alike to a Vision Transformer lights up",
    description: str | None = None,
) -> Figure:
    """Photographs beside their tokens' colours; the touched patch lights up its like in all.

    Two patches are alike by the cosine of their tokens, less the mean of all, in the 32 largest
    components. The colours are :func:`vitbook.analysis.token_colors` of what
    :func:`vitbook.analysis.object_mask` keeps.

    Args:
        images: uint8 "n channels height width", one size.
        tokens: "n patches width", without prefix: :func:`vitbook.analysis.layer_tokens` of a layer.
        grid_size: (rows, columns) of the patches.
        names: of the photographs.
        start: number of a photograph and (row, column) of its touched patch at the start.

    Raises:
        ValueError: more patches than a page holds; not as many tokens or names as photographs; a
            start that is not among them.
    """
    images = as_images(images)
    tokens = torch.from_numpy(as_array(tokens)).float()
    if tokens.shape[:2].numel() > _MOST_PATCHES:
        raise ValueError(
            f"{tokens.shape[:2].numel():,} patches, a page holds {_MOST_PATCHES:,}: take fewer "
            "photographs, or smaller ones"
        )
    if not len(images) == len(tokens) == len(names):
        raise ValueError(
            f"{len(images)} images, tokens of {len(tokens)} and {len(names)} names: expected as "
            "many of each"
        )
    mask = object_mask(tokens, grid_size)  # also checks the grid, and that the tokens are finite
    number, place = start
    if not 0 <= number < len(images):
        raise ValueError(f"start {start}: there are {len(images)} photographs, counted from 0")
    count = min(_COMPONENTS, tokens.shape[-1], tokens.shape[:2].numel())
    found, shares = principal_tokens(tokens, count)
    unit = (found / found.norm(dim=-1, keepdim=True).clamp_min(1e-12)).numpy()
    levels = np.rint(unit / max(np.abs(unit).max(), 1e-12) * 127).astype(np.int8)
    stands_out = mask if mask.sum() >= 3 else None  # of alike tokens none does
    colors = np.rint(255 * token_colors(tokens, stands_out).numpy()).astype(np.uint8)
    data = {
        "photos": [[str(name), jpeg(image)] for name, image in zip(names, images, strict=True)],
        "size": list(images.shape[2:]), "grid": list(grid_size), "components": count,
        "tokens": base64(levels), "colors": base64(colors), "floor": FLOOR, "darkest": DARKEST,
        "start": {"photo": number, "patch": patch_at(place, grid_size)}, "task": task or "",
    }  # fmt: skip
    finding = (
        "A patch is as bright as its token is like the touched one's: the cosine, less the mean "
        f"token, in the {count} largest of {tokens.shape[-1]} components "
        f"({float(shares.sum()):.0%} of the variance). It stays dark up to {FLOOR}. Right: the "
        "three largest components of the tokens that stand out, as red, green and blue; the rest "
        "is black."
    )
    return Figure("alike_patches", data, title, description or finding)
