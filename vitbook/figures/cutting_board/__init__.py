"""An image cut into windows, and a square that falls on it: which token has it whole?"""

from collections.abc import Iterable, Mapping

import numpy as np

from vitbook.analysis import window
from vitbook.figures.parts.drawing import as_images, image_png
from vitbook.figures.parts.figure import Figure, at_the_start

Split = tuple[int, int, int]
_WHOLE, _CUT = "#0072B2", "#D55E00"
_LARGEST = 24


def _layout(splits: Iterable[Split], side: int) -> tuple[int, int, int, int]:
    """Of stacked splits along one side: window, step, first pixel, and number of the tokens.

    A split on tokens whose step is s moves the first window s times its padding outward.
    """
    splits = list(splits)
    size = window([(kernel, stride) for kernel, stride, _ in splits])
    step, first, count = 1, 0, side
    for kernel, stride, padding in splits:
        first, step = first - padding * step, step * stride
        count = (count + 2 * padding - kernel) // stride + 1
    return size, step, first, count


def _holders(layout: tuple[int, int, int, int], start: int, size: int) -> int:
    """How many windows along one side hold the pixels from ``start`` on, ``size`` of them."""
    wide, step, first, count = layout
    firsts = first + step * np.arange(count)
    return int(((firsts <= start) & (start + size <= firsts + wide)).sum())


def cutting_board(
    image,
    cuts: Mapping[str, Iterable[Split]],
    *,
    square: tuple[int, int, int],
    task: str | None = None,
    goal: int | None = None,
    title: str = "Overlap decides what is sure to stay in one piece",
    description: str | None = None,
) -> Figure:
    """A square on an image, and the tokens that have it whole; each cut is one way to tokens.

    Beside it stands every other position of such a square: blue where at least one token has it
    whole, orange where every token that sees it has only a part.

    Args:
        image: uint8 "channels height width".
        cuts: name -> (kernel, stride, padding) of each split, the one on the image first. The
            windows are those of bare splits: what no attention between them adds.
        square: (row, column) of its upper left pixel, and its side, up to 24.
        goal: side of the square at which the last cut has reached its task; None for no task.
    """
    (image,) = as_images(image[None])
    height, width = image.shape[1:]
    row, column, size = square
    layouts = []
    for name, splits in cuts.items():
        rows, columns = (_layout(splits, side) for side in (height, width))
        layouts.append({"name": name, "window": rows[0], "step": rows[1], "first": rows[2],
                        "rows": rows[3], "columns": columns[3]})  # fmt: skip
    data = {
        "image": image_png(image), "size": [height, width], "layouts": layouts, "row": row,
        "column": column, "side": size, "largest": min(_LARGEST, height, width),
        "colors": [_WHOLE, _CUT], "task": task or "", "goal": goal,
    }  # fmt: skip
    first = layouts[0]
    axes = [(first["window"], first["step"], first["first"], first[a]) for a in ("rows", "columns")]
    whole = _holders(axes[0], row, size) * _holders(axes[1], column, size)
    down, across = (
        [_holders(axis, start, size) > 0 for start in range(side - size + 1)]
        for axis, side in zip(axes, (height, width), strict=True)
    )
    safe = np.outer(down, across)
    finding = (
        f"Cut as {first['name']!r}, the square of {size} × {size} pixels is whole in {whole} of "
        f"{first['rows'] * first['columns']:,} tokens. Of all its possible positions, "
        f"{100 * safe.mean():.0f} % leave it whole in some token."
    )
    description = description or (
        f"{at_the_start(finding)}\nOn the left, frames are the windows of the tokens that see some "
        "of the square: solid where all of it, dashed where a part. On the right, each pixel is "
        "the middle of another square of this size: blue leaves it whole, orange does not."
    )
    return Figure("cutting_board", data, title, description)
