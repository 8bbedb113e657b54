"""What the chapter that builds a Vision Transformer draws of one block."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from vitbook.plots.page import PHONE, for_pages, is_narrow
from vitbook.plots.style import COLORS, INK, finish

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
    """
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
