"""A canvas of digits that the reader lays down, and a detector that answers in the page."""

import math
from collections.abc import Sequence

import numpy as np
from torch import nn

from vitbook.errors import is_whole_number
from vitbook.figures.parts.drawing import OKABE_ITO, Number, as_images, base64, named
from vitbook.figures.parts.figure import Figure, at_the_start, piece_key
from vitbook.figures.parts.packing import squeeze
from vitbook.figures.parts.plain_vit import count_heads, shapes, values
from vitbook.figures.set_of_answers.canvas import TENTHS, enlarged, laid
from vitbook.figures.set_of_answers.detector import Said, check_computed, detector_weights, said_of

_SURE = 0.5  # from here on a query tells a digit, as in canvas.js
_MOST_DIGITS = 12  # as in canvas.js
_COLORS = (*OKABE_ITO, "#ffffff", "#b58ce8")
_TASK = (
    "Drag a digit across the canvas: which queries answer for it? Then add digits that hardly "
    "overlap, until no query answers for one of them."
)


def set_of_answers(
    model: nn.Module,
    digits,
    *,
    names: Sequence[str] | None = None,
    start: Sequence[tuple[Number, ...]] = (
        (7, 5, 6, 1.7),
        (3, 19, 2, 1.4),
        (7, 27, 18, 1.5),
    ),
    task: str | None = None,
    title: str = "A fixed set of queries answers for digits that you lay down",
    description: str | None = None,
) -> Figure:
    """Digits to drag about on a canvas, and what a detector's queries say of it, live.

    The reader adds digits, takes them off and changes their size; at every change the detector runs
    in the page. A query's line tells its likeliest class, or no object, and the chance; from 50 %
    on, its box is on the canvas. A chosen query shows its attention to the image in the last block.
    Digits are cut to their ink, enlarged bilinearly and laid down by the lighter pixel. The weights
    travel in float16, and come when the reader changes something.

    Args:
        model: a detector of grey, square canvases, as of Carion et al. 2020 (DETR): patches, an
            encoder, queries that attend to one another and to all tokens, heads for class and box.
        digits: uint8 "n 1 height width", offered in the tray; about ten, held out.
        names: of the digits; by default numbered from 0.
        start: of each digit on the canvas at first: which one, its left and top in pixels, and how
            many times as large as it comes: from 1 to 2, in tenths.
        task: by default to add digits until no query answers for one that overlaps others by
            at most a tenth of the smaller box, which the page then checks.

    Raises:
        ValueError: a model that the page does not compute, digits that do not fit on its canvas,
            or a start that does not lie on it.
    """
    weights, given = detector_weights(model), as_images(digits)
    step, grid = tuple(model.tokenizer.patch), tuple(model.grid_size)
    side = _side(step, grid, weights)
    sizes = enlarged(_with_ink(given, side))
    names = named("names", names, [str(i) for i in range(len(given))])
    placed = _placed(start, sizes, side)
    canvas, heads = laid(sizes, side, placed), count_heads(model)
    said = said_of(weights, heads, step, canvas)
    check_computed(model, said, canvas)
    stored = squeeze(values(weights).tobytes())
    classes = [str(i) for i in range(said.chances.shape[1] - 1)]
    data = {
        "digits": [[[*patch.shape, base64(patch)] for patch in each] for each in sizes],
        "names": names, "classes": classes, "side": side, "size": [side, side],
        "patch": list(weights["tokenizer.projection.weight"].shape[2:]), "step": list(step),
        "grid": list(grid), "heads": heads, "depth": len(model.encoder.blocks),
        "queries": len(said.chances), "colors": list(_COLORS), "weights": shapes(weights),
        "values": piece_key(stored), "goal": task is None, "task": _TASK if task is None else task,
        "start": {"placed": placed, "held": 0 if placed else -1, "query": -1},
        "answers": {name: part.astype(float).round(5).tolist()
                    for name, part in said._asdict().items()},
    }  # fmt: skip
    finding = _finding([names[which] for which, *_ in placed], said)
    return Figure("set_of_answers", data, title, description or at_the_start(finding), (stored,))


def _side(step: tuple[int, int], grid: tuple[int, int], weights: dict) -> int:
    high, wide = (one * count for one, count in zip(step, grid, strict=True))
    channels = weights["tokenizer.projection.weight"].shape[1]
    if high != wide or channels != 1:
        raise ValueError(
            f"the model takes {channels} x {high} x {wide} images, expected square grey ones: pass "
            "a detector of such canvases"
        )
    return high


def _with_ink(digits: np.ndarray, side: int) -> np.ndarray:
    largest = side * 10 // TENTHS[-1]
    if digits.shape[1] != 1 or max(digits.shape[2:]) > largest:
        raise ValueError(
            f"digits came with shape {digits.shape}, expected grey ones, (n, 1, h, w), of at most "
            f"{largest} pixels, so that they fit on the canvas at twice their size"
        )
    if (blank := ~digits.any((1, 2, 3))).any():
        raise ValueError(f"digit {blank.argmax()} has no ink, expected some in each: leave it out")
    return digits


def _placed(start: Sequence, sizes: list[list[np.ndarray]], side: int) -> list[list[int]]:
    placed = []
    for each in start:
        if len(each) != 4 or not all(map(is_whole_number, each[:3])) or not math.isfinite(each[3]):
            raise ValueError(
                f"start has {tuple(each)}: expected whole numbers for the digit, its left and its "
                "top, and how many times as large it is"
            )
        which, left, top, size = each
        tenths = round(10 * size)
        if not 0 <= which < len(sizes) or tenths not in TENTHS:
            raise ValueError(
                f"start has digit {which} at {size} times its size: expected digits 0 to "
                f"{len(sizes) - 1}, at 1 to 2 times"
            )
        height, width = sizes[which][tenths - TENTHS[0]].shape
        if not (0 <= left <= side - width and 0 <= top <= side - height):
            raise ValueError(
                f"start has digit {which}, {width} x {height} pixels, at ({left}, {top}): expected "
                f"it to lie on the canvas of {side} x {side}"
            )
        placed.append([which, left, top, tenths])
    if len(placed) > _MOST_DIGITS:
        raise ValueError(f"start has {len(placed)} digits, expected at most {_MOST_DIGITS}")
    return placed


def _finding(names: list[str], said: Said) -> str:
    best = said.chances.argmax(1)
    sure = np.flatnonzero((best < said.chances.shape[1] - 1) & (said.chances.max(1) >= _SURE))
    chances = said.chances[sure, best[sure]]
    told = "; ".join(
        f"q{i} says {best[i]} with {100 * chance:.0f} %"
        for i, chance in zip(sure, chances, strict=True)
    )
    return (
        f"The digits {', '.join(names)} lie on the canvas. Of {len(best)} queries {len(sure)} say "
        f"a digit{': ' if told else ''}{told}."
    )
