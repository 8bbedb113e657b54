"""What one token sees of the image, for three tokenizers."""

import math

import numpy as np

from vitbook.figures.parts.drawing import CIVIDIS, Number, as_images, base64
from vitbook.figures.parts.figure import Figure, at_the_start

_MOST_PIXELS = 64
_COLORS = ("#ffffff", "#E69F00", "#56B4E9", "#CC79A7", "#F0E442")
_NAMES = {"plain": "plain patches", "rotated": "rotated patches", "shifted": "shifted patches"}
_USUAL = (round(1800 / 20), round(1800 / 14))  # the poster's range, tenths of a degree


def token_footprint(
    image,
    patch_size: int = 4,
    *,
    degrees: Number = 12.9,
    task: str | None = None,
    title: str = "Turned copies show a token more of the image, by where it stands",
    description: str | None = None,
) -> Figure:
    """The pixels that make one token, and how many make each: plain, rotated and shifted patches.

    The page counts the pixels that the views' bilinear readings take in, which is the support of
    a token's gradient (:func:`vitbook.analysis.pixels_seen`).

    Args:
        image: uint8 "channels height width", one or three channels, up to 64 pixels a side.
        patch_size: pixels that a token steps; must divide the image.
        degrees: of the turned copies at the start, from 0 to 30.
    """
    image = as_images(np.asarray(image)[None])[0]
    height, width = image.shape[1:]
    if max(height, width) > _MOST_PIXELS or height % patch_size or width % patch_size:
        raise ValueError(
            f"an image of {height}x{width} px with patches of {patch_size}, expected at most "
            f"{_MOST_PIXELS} px a side and patches that divide it: load it at image_size=32, say"
        )
    rows, columns = height // patch_size, width // patch_size
    row, column = rows // 2, columns // 2
    seen = _seen(_readings(degrees, (height, width)), patch_size)
    counts = seen.sum((2, 3))
    where = np.argwhere(counts == counts.max())[0]
    finding = (
        f"With {_NAMES['rotated']}, {degrees:g} degrees, the token in row {row + 1}, column "
        f"{column + 1} sees {counts[row, column]} pixels, the one in the corner {counts[0, 0]}, "
        f"and the most is {counts.max()}, as in row {where[0] + 1}, column {where[1] + 1}. A plain "
        f"token sees {patch_size**2}."
    )
    data = {
        "pixels": base64(image), "size": [height, width], "channels": len(image),
        "patch": patch_size, "token": row * columns + column, "tokenizer": "rotated",
        "tenths": round(10 * degrees), "usual": list(_USUAL), "names": _NAMES,
        "ramp": CIVIDIS, "colors": _COLORS, "task": task or "",
    }  # fmt: skip
    return Figure("token_footprint", data, title, description or at_the_start(finding))


def _readings(degrees: Number, size: tuple[int, int]) -> np.ndarray:
    """Where the pixels of plain and turned views come from: "views height width 2"."""
    place = np.stack(np.meshgrid(*map(np.arange, size), indexing="ij"), axis=-1).astype(float)
    middle, views = (np.array(size) - 1) / 2, [place]
    for angle in (math.radians(degrees), -math.radians(degrees)):
        cos, sin = math.cos(angle), math.sin(angle)
        views.append((place - middle) @ np.array([[cos, -sin], [sin, cos]]) + middle)
    return np.stack(views)


def _seen(readings: np.ndarray, patch: int) -> np.ndarray:
    """The pixels that each token's bilinear readings take in: bool "rows columns height width"."""
    height, width = readings.shape[1:3]
    seen = np.zeros((height // patch, width // patch, height, width), dtype=bool)
    rows, columns = np.indices((height, width)) // patch
    for place in readings:
        first = np.floor(place + 1e-9)
        for step in ((0, 0), (0, 1), (1, 0), (1, 1)):
            weight = np.prod(np.where(step, place - first, 1 - (place - first)), axis=-1)
            y, x = np.moveaxis(first + step, -1, 0).astype(int)
            kept = (weight > 1e-9) & (y >= 0) & (y < height) & (x >= 0) & (x < width)
            seen[rows[kept], columns[kept], y[kept], x[kept]] = True
    return seen
