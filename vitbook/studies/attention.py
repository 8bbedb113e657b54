"""What the chapter on attention draws of its calculation by hand."""

from collections.abc import Mapping, Sequence
from itertools import cycle

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from vitbook.plots.page import for_pages
from vitbook.plots.style import COLORS, HEAT, INK, draw_image, finish, fitted, in_line


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


@for_pages
def photo_and_maps(
    image: Tensor,
    maps: Mapping[str, Tensor],
    query: tuple[int, int],
    title: str,
) -> Figure:
    """A photograph with one patch framed, and maps over its patches, each with its own scale.

    Args:
        image: uint8, "channels height width".
        maps: name -> "rows columns", one number a patch.
        query: (row, column) of the framed patch.
    """
    down, across = in_line(1 + len(maps))
    figure, axes = plt.subplots(
        down, across, figsize=fitted(3.2 * across, 3.0 * down + 0.3), layout="constrained"
    )
    rows, columns = next(iter(maps.values())).shape
    draw_image(axes[0], image)
    _mark_cell(axes[0], query, (image.shape[1] / rows, image.shape[2] / columns))
    axes[0].set_title("the question")
    for axis, (name, values) in zip(axes[1:], maps.items(), strict=True):
        drawn = axis.imshow(values.cpu().numpy(), cmap=HEAT, vmin=0)
        _mark_cell(axis, query, (1.0, 1.0))
        axis.set(xticks=[], yticks=[], title=name)
        figure.colorbar(drawn, ax=axis, shrink=0.8)
    return finish(figure, title)


def _mark_cell(axes, cell: tuple[int, int], size: tuple[float, float]) -> None:
    """A frame around one cell (row, column) of a grid, whose first pixel has its centre at 0."""
    corner = (cell[1] * size[1] - 0.5, cell[0] * size[0] - 0.5)
    for color, width in (("white", 4.5), (COLORS[1], 2.5)):
        axes.add_patch(
            Rectangle(corner, size[1], size[0], fill=False, edgecolor=color, linewidth=width)
        )
