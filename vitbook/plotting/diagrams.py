"""Drawings of a layer, with numbers that were measured in it."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from math import isfinite
from numbers import Real

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

from vitbook.plotting.page import PHONE, for_pages, is_narrow
from vitbook.plotting.style import COLORS, INK, finish

Point = tuple[float | int, float | int]
# Where the sizes of a Pre-LN block are written: after each arrow, from left to right.
POINTS = ("z", "norm1", "attention", "z'", "norm2", "mlp", "z''")
_AT = (
    (0.2, -0.35),
    (1.675, 2.15),
    (4.05, 0.85),
    (4.75, -0.35),
    (6.225, 2.15),
    (8.6, 0.85),
    (9.5, -0.35),
)

_BRANCHES = ((0.95, "Attention"), (5.5, "MLP"))


@for_pages
def residual_block(sizes: Mapping[str, Sequence[float | int]], title: str) -> Figure:
    """A Pre-LN block (ViT paper, equations 2 and 3): two branches leave the stream and are added.

    Args:
        sizes: name -> size of the tokens at each of :data:`POINTS`, for one or two models; they are
            written at these points, each name in its own colour.

    Raises:
        ValueError: no model or more than two, or not one finite number for each point.
    """
    if not 1 <= len(sizes) <= 2:
        raise ValueError(f"{len(sizes)} models: expected one or two")
    for name, numbers in sizes.items():
        finite = all(isinstance(number, Real) and isfinite(number) for number in numbers)
        if len(numbers) != len(POINTS) or not finite:
            raise ValueError(
                f"{name} has sizes {list(numbers)}: expected {len(POINTS)} finite numbers, for "
                + ", ".join(POINTS)
            )
    if is_narrow():  # the second half below the first, both with the stream between them
        figure, panels = plt.subplots(2, 1, figsize=(PHONE, 4.6), layout="constrained")
        parts = [((-0.2, 5.15), _BRANCHES[:1]), ((4.4, 9.95), _BRANCHES[1:])]
        lowest, names_at = -1.7, ((4.45, -1.2), (4.45, -1.6))
    else:
        figure, axis = plt.subplots(figsize=(7.6, 2.5), layout="constrained")
        panels, parts = [axis], [((-0.2, 10.2), _BRANCHES)]
        lowest, names_at = -1.3, ((2.35, -1.2), (5.55, -1.2))
    for axis, ((first, last), branches) in zip(panels, parts, strict=True):
        axis.set(xlim=(first - 0.1, last + 0.1), ylim=(lowest, 2.4))
        axis.axis("off")
        _arrow(axis, (first, 0), (last, 0), width=3)
        for left, layer in branches:
            _branch(axis, left, layer)
        for name, x in (("z", 0.2), ("z\N{PRIME}", 4.75), ("z\N{DOUBLE PRIME}", 9.5)):
            if first < x < last:
                axis.text(x, 0.22, name, ha="center", fontsize=12, color=INK, style="italic")
        for row, (numbers, color) in enumerate(zip(sizes.values(), COLORS, strict=False)):
            for (x, y), number in zip(_AT, numbers, strict=True):
                if first < x < last:
                    axis.text(x, y - 0.36 * row, f"{number:.2f}", ha="center", va="center",
                              fontsize=9, color=color, fontweight="bold")  # fmt: skip
    for (x, y), name, color in zip(names_at, sizes, COLORS, strict=False):
        panels[-1].text(x, y, f"size {name}", fontsize=9, color=color)
    return finish(figure, title)


@for_pages
def projections(
    token: Sequence[float | int],
    matrices: Mapping[str, Sequence[Sequence[float | int]]],
    results: Sequence[str],
    title: str,
) -> Figure:
    """One token times each of several matrices, side by side, every number written out.

    Args:
        matrices: name -> rows, one row for each number of the token.
        results: names of the products, in the order of the matrices.

    Raises:
        ValueError: a token of no numbers, a matrix without one row for each number of the token,
            rows of unequal length, or another number of names than of matrices.
    """
    if len(results) != len(matrices):
        raise ValueError(
            f"{len(results)} names for {len(matrices)} products: expected one for each"
        )
    if not len(token):
        raise ValueError("a token of 0 numbers: expected one or more")
    for name, rows in matrices.items():
        if len(rows) != len(token) or len({len(row) for row in rows}) != 1:
            raise ValueError(
                f"{name} has rows of {[len(row) for row in rows]} numbers: expected {len(token)} "
                "rows, one for each number of the token, all as long"
            )
    widths = [len(rows[0]) for rows in matrices.values()]
    across, down = sum(widths) + 2.2 * len(widths) + 2, len(token) + 2.4
    figure, axis = plt.subplots(figsize=(0.5 * across, 0.42 * down), layout="constrained")
    axis.set(xlim=(-0.2, across), ylim=(-down + 0.8, 0.9), aspect="equal")
    axis.axis("off")
    _cells(axis, "token", 0, 0, [[number] for number in token], COLORS[0])
    left = 3.0
    looks = cycle(COLORS[1:])
    for (name, rows), result, color in zip(matrices.items(), results, looks, strict=False):
        product = [sum(x * row[i] for x, row in zip(token, rows, strict=True))
                   for i in range(len(rows[0]))]  # fmt: skip
        _cells(axis, name, left, 0, rows, "#999999")
        _cells(axis, "", left, -len(token) - 0.6, [product], color)
        axis.text(left - 0.15, -len(token) - 1.1, result, ha="right", va="center", color=INK)
        left += len(product) + 2.2
    return finish(figure, title)


def _cells(
    axis,
    name: str,
    left: float | int,
    top: float | int,
    rows: Sequence[Sequence[float | int]],
    color: str,
) -> None:
    for i, row in enumerate(rows):
        for j, number in enumerate(row):
            corner = (left + j, top - i - 1)
            look = dict(facecolor=color, alpha=0.25 if number else 0.06, edgecolor="white")
            axis.add_patch(Rectangle(corner, 1, 1, **look))
            axis.text(left + j + 0.5, top - i - 0.5, f"{number:g}".replace("-", "−"), ha="center",
                      va="center", color=INK)  # fmt: skip
    axis.text(left + len(rows[0]) / 2, top + 0.15, name, ha="center", color=INK)


def _branch(axis, left: float | int, layer: str) -> None:
    """Up from the stream, through a LayerNorm and the layer, and back to a plus sign."""
    _arrow(axis, (left, 0), (left, 1.15))
    _arrow(axis, (left, 1.15), (left + 2.75, 1.15))
    _arrow(axis, (left + 2.75, 1.15), (left + 2.75, 0.2))
    _box(axis, (left + 0.2, 0.85), 1.05, "LayerNorm")
    _box(axis, (left + 1.6, 0.85), 1.0, layer)
    circle = dict(boxstyle="circle,pad=0.15", facecolor="white", edgecolor=INK)
    axis.text(left + 2.75, 0, "+", ha="center", va="center", fontsize=13, bbox=circle)


def _arrow(axis, start: Point, end: Point, width: float | int = 1.3) -> None:
    style = dict(arrowstyle="-|>", color=INK, linewidth=width, shrinkA=0, shrinkB=0)
    axis.annotate("", xy=end, xytext=start, arrowprops=style)


def _box(axis, corner: Point, width: float | int, text: str) -> None:
    look = dict(boxstyle="round,pad=0.05", facecolor="#f2f2f2", edgecolor=INK)
    axis.add_patch(FancyBboxPatch(corner, width, 0.6, zorder=3, **look))
    axis.text(
        corner[0] + width / 2, 1.15, text, ha="center", va="center", fontsize=9, color=INK, zorder=4
    )
