"""Colours, and what all figures do."""

import textwrap
from collections.abc import Mapping
from itertools import cycle

import matplotlib.pyplot as plt
import seaborn as sns
from einops import rearrange
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from vitbook.plotting.page import PHONE, is_narrow

INK = "#333333"
# Words on a coloured cell: not the paper's white and black, which turn over in the dark.
ON_DARK, ON_LIGHT = "#FEFEFE", "#222222"
# Okabe and Ito's colours, which colour-blind readers tell apart.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
HEAT = "cividis"

sns.set_theme(
    style="ticks",
    palette=COLORS,
    rc={
        **{"font.size": 10, "axes.titlesize": 10, "axes.labelsize": 10, "axes.linewidth": 0.8},
        **{f"{axis}tick.labelsize": 9 for axis in "xy"},
        **{f"{axis}tick.major.size": 4 for axis in "xy"},
        **{f"{axis}tick.major.width": 0.8 for axis in "xy"},
    },
)


def fitted(width: float, height: float) -> tuple[float, float]:
    """The size of a figure in inches, no wider than a phone where it is drawn for one."""
    return (min(width, PHONE), height) if is_narrow() else (width, height)


def wrapped(words: str, width: float = PHONE) -> str:
    """Words that fit a width in inches on a phone; elsewhere as they came."""
    return textwrap.fill(words, max(8, round(11 * width))) if is_narrow() else words


def legend_below(figure: Figure, named: Mapping[str, object]) -> None:
    """A legend under the figure, where no curve crosses it, in as many columns as have room."""
    if not named:
        return
    names = {wrapped(name): handle for name, handle in named.items()}
    longest = max(len(line) for name in names for line in name.splitlines())
    columns = int(figure.get_figwidth() / (0.075 * longest + 0.55))  # 0.075 inches a letter
    figure.legend(
        names.values(), names.keys(), loc="outside lower center", frameon=False, fontsize=9,
        ncols=min(4, len(names), max(1, columns)),
    )  # fmt: skip


def named(*axes: Axes) -> dict[str, object]:
    """What the axes name for a legend, each name once."""
    return {
        label: handle
        for axis in axes
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }


def draw_levels(axis: Axes, levels: Mapping[str, float | int] | None) -> None:
    """Grey lines across, each in its own dashes, to compare curves with."""
    for (name, level), dashes in zip(
        (levels or {}).items(), cycle(("--", "-.", ":")), strict=False
    ):
        axis.axhline(level, color="gray", linestyle=dashes, linewidth=1.2, label=name)


def finish(figure: Figure, title: str) -> Figure:
    """The figure under its title."""
    figure.suptitle(
        wrapped(title), fontsize=11 if is_narrow() else 12, fontweight="bold", color=INK
    )
    plt.close(figure)  # shown once, where it is returned
    return figure


def draw_image(axes, image: Tensor) -> None:
    """An image of uint8, "channels height width", without a frame of numbers."""
    pixels = rearrange(image, "c h w -> h w c").squeeze(-1).cpu().numpy()
    axes.imshow(pixels, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    axes.set(xticks=[], yticks=[])


def mark_cell(axes, cell: tuple[int, int], size: tuple[float, float]) -> None:
    """A frame around one cell (row, column) of a grid, whose first pixel has its centre at 0."""
    corner = (cell[1] * size[1] - 0.5, cell[0] * size[0] - 0.5)
    for color, width in (("white", 4.5), (COLORS[1], 2.5)):
        axes.add_patch(
            Rectangle(corner, size[1], size[0], fill=False, edgecolor=color, linewidth=width)
        )
