"""A photograph of the reader's own, and a model that looks at it in the page.

What the page needs of a model, and how it is checked, is said by ``vitbook.export.export_page``.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from vitbook.figures.parts.drawing import (
    as_array,
    as_images,
    drawing,
    framed,
    named,
    pixels,
    png,
    text,
)
from vitbook.figures.parts.figure import Figure, at_the_start, piece_key
from vitbook.figures.parts.jpeg import jpeg
from vitbook.figures.parts.packing import squeeze
from vitbook.figures.parts.veil import veil

_SIDE = 224  # pixels, of the photographs and of the model beside the page
_QUALITY = 90
_TASK = "Blank or blur patches until the answer changes. How few do you need?"


def photo_reader(
    photographs,
    attention,
    saliency,
    *,
    patch_size: int,
    num_prefix_tokens: int,
    start: tuple[int, int],
    layer: int | None = None,
    names: Sequence[str] | None = None,
    task: str = _TASK,
    title: str = "A Vision Transformer looks at your photograph, in this page",
    description: str | None = None,
) -> Figure:
    """A photograph by file, drop, paste or camera, and what a pretrained model makes of it.

    The page shows where a patch looks in each layer and head, the tokens behind each layer as
    colours, and the model's answers; patches can be blanked or blurred with a brush. The model is
    computed in the page, from files that `make book` lays beside it; nothing leaves the page. The
    reader may give a folder of ``vitbook export MODEL --page FOLDER`` in its place.

    Args:
        photographs: uint8 "3 height width" each, whose shorter side has 224 pixels, to begin with.
        attention: of a layer on the middle square of the first, "heads queries keys".
        saliency: the model's map of the same, "224 224", from 0 to 1.
        patch_size: in pixels.
        num_prefix_tokens: in front of the patches.
        start: row and column of the patch that asks at first.
        layer: which one, from 1; the page begins there. By default the last.
        names: of the photographs; by default numbered.
    """
    maps, map_ = as_array(attention), as_array(saliency)
    photos = [as_images(as_array(each)[None])[0] for each in photographs]
    side, grid = _SIDE, _SIDE // patch_size
    tokens = grid * grid + num_prefix_tokens
    for photo in photos:
        if len(photo) != 3 or min(photo.shape[1:]) != side or map_.shape != (side, side):
            raise ValueError(
                f"a photograph came as {photo.shape} and the saliency as {map_.shape}, expected 3 "
                f"channels with a shorter side of {side} pixels, and ({side}, {side})"
            )
    names = named("names", names, [f"photograph {i + 1}" for i in range(len(photos))])
    row, column = start
    patch = row * grid + column
    looks = maps[:, num_prefix_tokens + patch, num_prefix_tokens:].mean(0).reshape(grid, grid)
    data = {
        "photos": _faces(names, photos), "task": task,
        "start": {"photo": 0, "size": f"{side}x{side}", "grid": [grid, grid], "patch": patch,
                  "layer": layer},
    }  # fmt: skip
    depth = f"layer {layer}" if layer else "the last layer"
    brightest = np.unravel_index(looks.argmax(), looks.shape)
    finding = (
        f"In the {names[0]} the patch in row {row + 1}, column {column + 1} looks most, in the "
        f"mean of the heads of {depth}, at row {brightest[0] + 1}, column {brightest[1] + 1}: "
        f"with {looks.max():.3f} of its attention, where an equal share is {1 / tokens:.4f}."
    )
    down, across = ((length - side) // 2 for length in photos[0].shape[1:])
    square = photos[0][:, down : down + side, across : across + side]
    still = _still(square, looks, map_, (row, column), finding)
    return Figure("photo_reader", data, title, description or at_the_start(finding), still=still)


def own_photo_reader(
    photographs,
    manifest: dict,
    model: Mapping[str, bytes],
    runtime: tuple[bytes, bytes],
    *,
    names: Sequence[str] | None = None,
) -> Figure:
    """The same with a model of one's own and its runtime inside: it runs from a file.

    Args:
        photographs: uint8 "3 height width" each, to begin with.
        manifest, model: of ``vitbook.export.page_manifest.read_page_model``.
        runtime: module and binary of onnxruntime-web.
    """
    photos = [as_images(as_array(each)[None])[0] for each in photographs]
    names = named("names", names, [f"photograph {i + 1}" for i in range(len(photos))])
    texts = {name: squeeze(content) for name, content in model.items()}
    module, binary = map(squeeze, runtime)
    size, about = next(iter(manifest["sizes"].items()))
    data = {
        "photos": _faces(names, photos), "task": _TASK,
        "start": {"photo": 0, "size": size, "grid": about["grid"] or [1, 1], "patch": 0},
        "model": {"manifest": manifest, "module": piece_key(module), "binary": piece_key(binary),
                  "files": {name: piece_key(text) for name, text in texts.items()}},
    }  # fmt: skip
    title = f"{manifest['name']} looks at your photograph, in this page"
    reading = f"The model sees the middle of the photograph, at {size.replace('x', ' x ')} pixels."
    if any(layer["attention"] for layer in manifest["layers"]):
        reading += " Bright patches are those that the framed patch attends to."
    if any(layer["tokens"] for layer in manifest["layers"]):
        reading += " Tokens of like colour are alike to the model."
    return Figure("photo_reader", data, title, reading, pieces=(*texts.values(), module, binary))


def _faces(names: Sequence[str], photos: Sequence[np.ndarray]) -> list[list[str]]:
    return [
        [name, jpeg(photo, quality=_QUALITY)] for name, photo in zip(names, photos, strict=True)
    ]


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
