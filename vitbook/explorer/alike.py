"""Photographs as a Vision Transformer's tokens see them: touch one, and all its like light up."""

from collections.abc import Sequence

import numpy as np
import torch

from vitbook.analysis import object_mask, principal_tokens, token_colors
from vitbook.explorer.drawing import (
    as_array,
    as_images,
    base64,
    drawing,
    framed,
    pixels,
    png,
    text,
)
from vitbook.explorer.figure import Figure
from vitbook.explorer.jpeg import jpeg
from vitbook.extras import from_extra

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
        tokens: "n patches width", after the last norm and without prefix.
        grid_size: (rows, columns) of the patches.
        names: of the photographs.
        start: number of a photograph and (row, column) of its touched patch at the start.
        task: a sentence above the figure.
        description: the caption.

    Raises:
        ValueError: what came does not fit together, is not finite, or has more patches than a
            page holds.
        MissingPackageError: Pillow is not installed.
    """
    images = as_images(images)
    tokens = torch.from_numpy(as_array(tokens)).float()
    rows, columns = grid_size
    if tokens.ndim != 3 or len(images) != len(tokens) or len(names) != len(images):
        raise ValueError(
            f"{len(images)} images and {len(names)} names with tokens of shape "
            f"{tuple(tokens.shape)}: expected (images, patches, width), one each"
        )
    if tokens.shape[:2].numel() > _MOST_PATCHES:
        raise ValueError(
            f"{tokens.shape[:2].numel():,} patches, a page holds {_MOST_PATCHES:,}: take fewer "
            "photographs, or smaller ones"
        )
    mask = object_mask(tokens, grid_size)  # also checks the grid, and that the tokens are finite
    number, (row, column) = start
    if not (0 <= number < len(images) and 0 <= row < rows and 0 <= column < columns):
        raise ValueError(
            f"start {start}: expected a photograph from 0 to {len(images) - 1} and a patch of a "
            f"grid of {rows} x {columns}"
        )
    count = min(_COMPONENTS, tokens.shape[-1], tokens.shape[:2].numel())
    found, shares = principal_tokens(tokens, count)
    unit = (found / found.norm(dim=-1, keepdim=True).clamp_min(1e-12)).numpy()
    levels = np.rint(unit / max(np.abs(unit).max(), 1e-12) * 127).astype(np.int8)
    stands_out = mask if mask.sum() >= 3 else None  # of alike tokens none does
    colors = np.rint(255 * token_colors(tokens, stands_out).numpy()).astype(np.uint8)
    patch = row * columns + column
    data = {
        "photos": [[str(name), jpeg(image)] for name, image in zip(names, images, strict=True)],
        "size": list(images.shape[2:]), "grid": [rows, columns], "components": count,
        "tokens": base64(levels), "colors": base64(colors), "floor": FLOOR, "darkest": DARKEST,
        "start": {"photo": number, "patch": patch}, "task": task or "",
    }  # fmt: skip
    finding = (
        "A patch is as bright as its token is like the touched one's: the cosine, less the mean "
        f"token, in the {count} largest of {tokens.shape[-1]} components "
        f"({float(shares.sum()):.0%} of the variance). It stays dark up to {FLOOR}. Right: the "
        "three largest components of the tokens that stand out, as red, green and blue; the rest "
        "is black."
    )
    likeness = _cosines(levels, number, patch).reshape(-1, rows, columns)
    still = _still(data, images, colors[number].reshape(rows, columns, 3), likeness)
    return Figure("alike_patches.js", data, title, description or finding, still)


def _cosines(levels: np.ndarray, number: int, patch: int) -> np.ndarray:
    """Of every patch of every photograph with one patch: "images patches"."""
    tokens = levels.astype(np.float32)
    tokens /= np.maximum(np.linalg.norm(tokens, axis=-1, keepdims=True), 1e-12)
    return tokens @ tokens[number, patch]


def _veiled(image: np.ndarray, likeness: np.ndarray) -> np.ndarray:
    """An image "c h w", dark where a patch is unlike the touched one."""
    light = 1 - DARKEST * (1 - np.clip((likeness - FLOOR) / (1 - FLOOR), 0, 1))
    with from_extra("data"):
        from PIL import Image

    size = image.shape[:0:-1]
    smooth = Image.fromarray(light.astype(np.float32)).resize(size, Image.Resampling.BILINEAR)
    return np.rint(image * np.asarray(smooth)).astype(np.uint8)


def _still(data: dict, images: np.ndarray, colors: np.ndarray, likeness: np.ndarray) -> str:
    """The start: the photograph under its veil, its colours, and all photographs small."""
    (rows, columns), (height, width) = data["grid"], data["size"]
    side, gap, top = 330, 16, 22
    high = side * height / width
    number, patch = data["start"]["photo"], data["start"]["patch"]
    name = data["photos"][number][0]
    veiled = [_veiled(*pair) for pair in zip(images, likeness, strict=True)]
    row, column = divmod(patch, columns)
    cell = side / columns, high / rows
    parts = [
        text(0, 14, name, font_weight=600),
        pixels(jpeg(veiled[number]), 0, top, side, high),
        text(side + gap, 14, "What its tokens say", font_weight=600),
        pixels(png(colors), side + gap, top, side, high),
        *(framed(left + column * cell[0], top + row * cell[1], *cell) for left in (0, side + gap)),
    ]
    small = (2 * side + gap - 6 * (len(images) - 1)) / len(images)
    below = small * height / width
    for i, image in enumerate(veiled):
        parts.append(pixels(jpeg(image, 96), i * (small + 6), top + high + 14, small, below))
    words = f"The {name} and its tokens as colours; a patch is touched, those like it are bright."
    return drawing(2 * side + gap, top + high + 14 + below, words, *parts)
