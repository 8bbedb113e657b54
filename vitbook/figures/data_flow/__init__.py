"""From a photograph to a model's answer in one figure, one step a click, one patch followed."""

from operator import index

import numpy as np
import torch

from vitbook.extras import from_extra
from vitbook.figures.data_flow.colors import layer_colors
from vitbook.figures.parts.drawing import (
    as_array,
    as_images,
    base64,
    drawing,
    framed,
    patch_at,
    pixels,
    png,
    tag,
    text,
)
from vitbook.figures.parts.figure import Figure, piece_key
from vitbook.figures.parts.jpeg import jpeg
from vitbook.figures.parts.veil import patch_means, veil

LINES = 8  # to the tokens that a patch looks at most, in each layer
# Of the small form, which shares its page with other figures: lines, and pixels of the photograph.
SMALL_LINES, _SMALL_SIDE = 6, 288
_MEANING = ("where the model expects the eye to rest", "A classifier reads the last tokens.")
_LONGEST = 18  # letters of a name that a still has room for
_ANSWER_SIDE = 64  # pixels of the answer that are packed: the veil is smooth


def data_flow(
    photograph,
    tokens,
    attention,
    answer,
    *,
    grid_size: tuple[int, int],
    patch_size: int,
    start: tuple[int, int],
    num_prefix_tokens: int = 1,
    meaning: str | None = None,
    stops: tuple[int, ...] = (),
    small: bool = False,
    title: str = "From a photograph to an answer: follow one patch through a Vision Transformer",
    description: str | None = None,
) -> Figure:
    """A photograph is cut, lined up, embedded, mixed layer by layer, and becomes an answer.

    Colours are the three largest principal components of each layer's tokens, turned so that they
    change as little as possible from a layer to the next one. Lines lead from the followed patch to
    the tokens that it looks at most.

    Args:
        photograph: uint8 "3 height width", of any size that has the grid's proportions.
        tokens: "layers+1 tokens width": what the first block takes, then what each block gives.
        attention: "layers tokens tokens", the mean of the heads.
        answer: the model's map of the photograph, "height width", from 0 to 1; or its names and
            their shares, the largest first.
        grid_size: (rows, columns) of the patches.
        patch_size: in pixels that the model sees.
        start: (row, column) of the patch that is followed at first.
        num_prefix_tokens: in front of the patches; the first is called the class token.
        meaning: of what is bright in a map, after "bright"; of names, a sentence on how they came.
            By default where the eye is expected to rest, and that a classifier reads the last
            tokens.
        stops: the layers, from 1, that are shown one by one; by default all of them.
        small: less tall, in fewer bytes, and without the slider of layers.

    Raises:
        ValueError: tokens and attention of another grid, attention that is no weights, stops that
            are no layers in turn, a start outside the grid, or an answer that is neither.
    """
    images = as_images(as_array(photograph)[None])
    tokens = torch.from_numpy(as_array(tokens)).float()
    maps = as_array(attention)
    rows, columns = grid_size
    count = rows * columns + num_prefix_tokens
    if tokens.shape[1] != count or maps.shape != (len(tokens) - 1, count, count):
        raise ValueError(
            f"tokens of shape {tuple(tokens.shape)} and attention of shape {maps.shape}: expected "
            f"{count} tokens, of {rows} x {columns} patches and {num_prefix_tokens} before them, "
            "and a mean of the heads for each layer"
        )
    if not np.isfinite(maps).all() or maps.min() < 0 or not maps.any():
        raise ValueError("attention holds NaN, infinity, less than 0 or nothing: expected weights")
    depth, width = len(maps), tokens.shape[-1]
    stops = [index(stop) for stop in stops] or list(range(1, depth + 1))
    if stops != sorted(set(stops)) or stops[0] < 1 or stops[-1] > depth:
        raise ValueError(f"stops {stops}: expected layers from 1 to {depth}, each later")
    colors = layer_colors(tokens, num_prefix_tokens)
    seen, weights = strongest(maps[:, num_prefix_tokens:], SMALL_LINES if small else LINES)
    top = float(weights.max())
    channels = images.shape[1]
    patch = patch_at(start, grid_size)
    named = isinstance(answer, dict)
    data = {
        "photo": jpeg(images[0], _SMALL_SIDE if small else None), "grid": [rows, columns],
        "patch": patch_size, "width": width, "channels": channels,
        "prefix": num_prefix_tokens, "depth": depth, "lines": seen.shape[-1],
        "colors": base64(colors), "seen": base64(seen.astype("<u2")), "top": top,
        "weights": base64(np.rint(255 * np.sqrt(weights / top)).astype(np.uint8)),
        "stops": stops, "meaning": meaning or _MEANING[named], "small": small,
        "start": patch, "task": "",
    }  # fmt: skip
    dark = None
    if named:
        data["names"] = _names(answer)
    else:
        answer = _map(answer, grid_size)
        dark, means = _small_veil(answer), patch_means(answer, grid_size)
        data |= {
            "veil": png(dark), "means": base64(np.rint(255 * means).astype(np.uint8)),
            "answer": list(answer.shape),
        }  # fmt: skip
    looked = seen.shape[-1]
    finding = (
        "Tokens of like colour are alike: the three principal components of a layer's tokens, "
        "turned to change little from layer to layer. Curved lines lead to the "
        f"{looked} tokens that the framed patch attends to most, in the mean of the heads. The "
        "straight line is its own token, to which the layer adds."
    )
    still = _still(data, images[0], colors[:, num_prefix_tokens:], dark)
    return Figure("data_flow", data, title, description or finding, still=still)


def strongest(maps: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The largest weights of each row, largest first: their places, and themselves."""
    seen = np.argsort(-maps, axis=-1, kind="stable")[..., :count]
    return seen, np.take_along_axis(maps, seen, -1)


def _names(answer: dict) -> list[list]:
    names = [[str(name), float(share)] for name, share in answer.items()]
    shares = [share for _, share in names]
    if not names or not all(0 <= share <= 1 for share in shares) or shares[::-1] != sorted(shares):
        raise ValueError(
            f"names came with the shares {shares}: expected some from 0 to 1, the largest first"
        )
    return names


def _map(answer, grid_size: tuple[int, int]) -> np.ndarray:
    answer = as_array(answer).astype(float)
    if answer.ndim != 2 or any(
        n % cells or n < cells for n, cells in zip(answer.shape, grid_size, strict=True)
    ):
        raise ValueError(
            f"an answer of shape {answer.shape}: expected (height, width), so many pixels for each "
            f"of {grid_size[0]} x {grid_size[1]} patches"
        )
    if not ((answer >= 0) & (answer <= 1)).all():
        raise ValueError("an answer below 0, above 1 or NaN: expected a map from 0 to 1")
    return answer


def _small_veil(answer: np.ndarray) -> np.ndarray:
    """Of an answer, in few pixels."""
    with from_extra("data"):
        from PIL import Image

    step = -(-max(answer.shape) // _ANSWER_SIDE)
    size = max(1, answer.shape[1] // step), max(1, answer.shape[0] // step)
    small = Image.fromarray(answer.astype(np.float32)).resize(size, Image.Resampling.BOX)
    return veil(np.asarray(small))


def _still(data: dict, image: np.ndarray, colors: np.ndarray, dark: np.ndarray | None) -> str:
    """The steps side by side, three in a row, the followed patch framed in each."""
    (rows, columns), depth = data["grid"], data["depth"]
    side, gap, line = 200, 20, 26
    high = side * rows / columns
    photo, cell = jpeg(image, side), (side / columns, high / rows)
    name_of_photo = f"vb-flow-{piece_key(photo)}"
    row, column = divmod(data["start"], columns)
    middle = (depth + 1) // 2
    parts = []
    titles = ("1 the photograph", f"2 {rows} × {columns} patches", "3 tokens", f"4 layer {middle}",
              f"5 layer {depth}", "6 the answer")  # fmt: skip
    for i, name in enumerate(titles):
        x, y = i % 3 * (side + gap), i // 3 * (high + line + gap) + line
        parts.append(text(x, y - 8, name, font_size=17, font_weight=600))
        if i == 0:
            parts.append(pixels(photo, x, y, side, high, id=name_of_photo, class_="vb-first"))
        elif i in (1, 5):
            parts.append(tag("use", href=f"#{name_of_photo}", x=x, y=y - line))
        else:
            shown = colors[(0, middle, depth)[i - 2]].reshape(rows, columns, 3)
            parts.append(pixels(png(shown), x, y, side, high))
        if i == 1:
            lines = "".join(f"M{x + k * cell[0]:.2f} {y}v{high:.2f}" for k in range(1, columns))
            lines += "".join(f"M{x} {y + k * cell[1]:.2f}h{side}" for k in range(1, rows))
            parts.append(tag("path", d=lines, stroke="var(--vb-paper)", stroke_width=2.5))
        if i == 5:
            parts += _answered(data, dark, x, y, side, high)
        # Around the patch and not inside it, or little of it would be seen.
        left, upper = x + column * cell[0] - 4, y + row * cell[1] - 4
        parts.append(framed(left, upper, cell[0] + 8, cell[1] + 8))
    words = "The photograph, its patches, its tokens in three layers as colours, and the answer."
    return drawing(3 * side + 2 * gap, 2 * (high + line) + gap, words, *parts)


def _answered(data: dict, dark: np.ndarray | None, x, y, wide, high) -> list[str]:
    """Over the photograph: the veil of a map, or a line for each name."""
    if dark is not None:
        return [pixels(png(dark), x, y, wide, high)]
    lines = [
        f"{name if len(name) <= _LONGEST else name[: _LONGEST - 1] + '…'}: {share:.0%}"
        for name, share in data["names"]
    ]
    return [
        tag("rect", x=x, y=y + high - 26 * len(lines) - 8, width=wide, height=26 * len(lines) + 8,
            fill="var(--vb-paper)", opacity=0.9),
        *(text(x + 8, y + high - 26 * (len(lines) - i) + 16, line, font_size=16)
          for i, line in enumerate(lines)),
    ]  # fmt: skip
