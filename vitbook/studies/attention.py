"""What the chapter on attention draws of its calculation by hand."""

from collections.abc import Mapping, Sequence
from itertools import cycle

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from vitbook.plots.page import for_pages
from vitbook.plots.style import COLORS, INK, finish


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
    """
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
