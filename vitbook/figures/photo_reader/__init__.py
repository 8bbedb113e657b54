"""A photograph of the reader's own, and a pretrained model that looks at it in the page."""

from collections.abc import Sequence

import numpy as np

from vitbook.figures.parts.drawing import (
    as_array,
    as_images,
    drawing,
    framed,
    image_png,
    named,
    pixels,
    png,
    text,
)
from vitbook.figures.parts.figure import Figure, at_the_start
from vitbook.figures.parts.jpeg import jpeg
from vitbook.figures.parts.veil import patch_means, veil

_SIZES = (224, 112)  # pixels a side; of the files that `tools/page_model.py` lays down
_QUALITY = 90


def photo_reader(
    photographs,
    attention,
    saliency,
    *,
    patch_size: int,
    num_prefix_tokens: int,
    depth: int,
    start: tuple[int, int],
    names: Sequence[str] | None = None,
    task: str = "Blank or blur patches until the first class changes. How few do you need?",
    title: str = "A pretrained Vision Transformer looks at your photograph, in this page",
    description: str | None = None,
) -> Figure:
    """A photograph by file, drop, paste or camera, and what a pretrained model makes of it.

    The page shows where a patch looks in each layer and head, the tokens behind each layer as
    colours, and the model's answers; patches can be blanked or blurred with a brush. The model is
    computed in the page, from files that `make book` lays beside it; nothing leaves the page.

    Args:
        photographs: uint8 "n 3 224 224", to begin with.
        attention: of the last layer on the first of them, "heads queries keys".
        saliency: the model's map of the first of them, "224 224", from 0 to 1; with it the page
            checks its own computation.
        patch_size: in pixels.
        num_prefix_tokens: in front of the patches.
        depth: layers.
        start: row and column of the patch that asks at first.
        names: of the photographs; by default numbered.
    """
    photos, maps, map_ = as_images(photographs), as_array(attention), as_array(saliency)
    side = _SIZES[0]
    grid = side // patch_size
    tokens = grid * grid + num_prefix_tokens
    if photos.shape[1:] != (3, side, side) or map_.shape != (side, side):
        raise ValueError(
            f"photographs came as {photos.shape[1:]} and the saliency as {map_.shape}, expected "
            f"(3, {side}, {side}) and ({side}, {side})"
        )
    names = named("names", names, [f"photograph {i + 1}" for i in range(len(photos))])
    row, column = start
    patch = row * grid + column
    looks = maps[:, num_prefix_tokens + patch, num_prefix_tokens:].mean(0).reshape(grid, grid)
    data = {
        # The first one without loss: on it the page compares itself with torch.
        "photos": [[name, jpeg(photo, quality=_QUALITY) if i else image_png(photo)]
                   for i, (name, photo) in enumerate(zip(names, photos, strict=True))],
        "sizes": list(_SIZES), "patch": patch_size, "depth": depth, "heads": len(maps),
        "check": [round(float(mean), 4) for mean in patch_means(map_, (grid, grid))], "task": task,
        "start": {"photo": 0, "size": side, "layer": depth, "head": "mean", "patch": patch},
    }  # fmt: skip
    brightest = np.unravel_index(looks.argmax(), looks.shape)
    finding = (
        f"In the {names[0]} the patch in row {row + 1}, column {column + 1} looks most, in the "
        f"mean of the last layer's heads, at row {brightest[0] + 1}, column {brightest[1] + 1}: "
        f"with {looks.max():.3f} of its attention, where an equal share is {1 / tokens:.4f}."
    )
    still = _still(photos[0], looks, map_, (row, column), finding)
    return Figure("photo_reader", data, title, description or at_the_start(finding), still=still)


def _still(
    photo: np.ndarray, looks: np.ndarray, saliency: np.ndarray, start: tuple[int, int], words: str
) -> str:
    side, gap, top = 224, 24, 24
    cell = side / len(looks)
    shown = jpeg(photo, quality=_QUALITY)
    titles = ("the photograph", "where the framed patch looks", "what draws the eye, to the model")
    shares = (None, np.sqrt(looks / looks.max()), saliency)
    parts = []
    for i, (title, share) in enumerate(zip(titles, shares, strict=True)):
        x = i * (side + gap)
        parts += [text(x, 14, title, font_weight=600), pixels(shown, x, top, side, side)]
        if share is not None:
            parts.append(pixels(png(veil(share)), x, top, side, side))
        parts.append(framed(x + start[1] * cell, top + start[0] * cell, cell, cell))
    return drawing(3 * side + 2 * gap, side + top, words, *parts)
