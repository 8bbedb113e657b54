"""What depth, width and patches multiply, drawn."""

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from vitbook.plots.page import for_pages, is_narrow
from vitbook.plots.style import COLORS, INK, finish

# Change -> patches a side, numbers in a token, blocks.
CHANGES = {
    "as it is": (2, 2, 2), "twice the depth": (2, 2, 4), "twice the width": (2, 4, 2),
    "half the patch side": (4, 2, 2),
}  # fmt: skip
_CELL, _BACK = 0.3, 0.42  # of a number, and from a sheet to the one behind it
_IMAGE, _HIGH, _LOW = 1.3, 1.4, -6.05


@for_pages
def levers() -> Figure:
    """An image in patches, and below it the tokens that each block works on."""
    lows = (-2.75, _LOW) if is_narrow() else (_LOW,)  # only the last drawing is tall
    heights, columns = [_HIGH - low for low in lows], 4 // len(lows)
    figure, axes = plt.subplots(
        len(lows), columns, figsize=(1.85 * columns, 0.52 * sum(heights) + 0.4), squeeze=False,
        height_ratios=heights, layout="constrained",
    )  # fmt: skip
    for i, (axis, (name, change)) in enumerate(zip(axes.flat, CHANGES.items(), strict=True)):
        axis.set(xlim=(-0.1, 2.55), ylim=(lows[i // columns], _HIGH), aspect="equal")
        _draw(axis, *change)
        axis.set_title(name, fontsize=10)
    return finish(figure, "A sheet is a block, a row is a token")


def _draw(axis, side: int, width: int, depth: int) -> None:
    axis.axis("off")
    step = _IMAGE / side
    for row in range(side):
        for column in range(side):
            corner = column * step, row * step
            axis.add_patch(Rectangle(corner, step, step, facecolor="white", edgecolor=INK))
    words = f"{side**2} tokens × {width},\n{depth} blocks"
    axis.text(0, -0.12, words, fontsize=9, va="top", color=INK)
    for block in reversed(range(depth)):
        left, top = block * _BACK, -1.15 - (depth - 1 - block) * 0.08
        for cell in range(side**2 * width):
            token, number = divmod(cell, width)
            corner = left + number * _CELL, top - (token + 1) * _CELL
            axis.add_patch(Rectangle(
                corner, _CELL, _CELL, facecolor="white", edgecolor=COLORS[0], linewidth=1.2
            ))  # fmt: skip
