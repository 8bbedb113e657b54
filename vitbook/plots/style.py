"""Colours, and what all figures do."""

import re
import textwrap
from collections.abc import Mapping, Sequence
from itertools import cycle

import matplotlib.pyplot as plt
import seaborn as sns
from einops import rearrange
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from torch import Tensor

from vitbook.plots.page import PHONE, is_narrow

INK = "#333333"
# Okabe and Ito's colours, which colour-blind readers tell apart.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
HEAT = "cividis"
_MATH = re.compile(r"\$[^$]+\$")

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


def in_line(panels: int) -> tuple[int, int]:
    """Rows and columns of panels that stand side by side, and on a phone below one another."""
    return (panels, 1) if is_narrow() else (1, panels)


def wrapped(words: str, width: float | int = PHONE) -> str:
    """Words that fit a width in inches on a phone; elsewhere as they came. Formulas stay whole."""
    if not is_narrow():
        return words
    whole, formulas = _MATH.subn(lambda found: found[0].replace(" ", "\0"), words)
    lines = textwrap.fill(
        whole, max(8, round(11 * width)), break_long_words=not formulas,
        break_on_hyphens=not formulas,
    )  # fmt: skip
    return lines.replace("\0", " ")


def legend_below(figure: Figure, named: Mapping[str, object]) -> None:
    """A legend under the figure, where no curve crosses it, in as many columns as have room.

    A long one makes the figure taller, so that its curves keep their place.
    """
    if not named:
        return
    names = [wrapped(name) for name in named]
    longest = max((len(line) for name in names for line in name.splitlines()), default=0)
    columns = int(figure.get_figwidth() / (0.075 * longest + 0.55))  # 0.075 inches a letter
    columns = min(4, len(names), max(1, columns))
    figure.legend(
        list(named.values()), names, loc="outside lower center", frameon=False, fontsize=9,
        ncols=columns,
    )  # fmt: skip
    lines = -(-len(names) // columns) * max(1, *(len(name.splitlines()) for name in names))
    spare = lines - (2 if is_narrow() else 4)
    figure.set_figheight(figure.get_figheight() + 0.18 * max(0, spare))


def lift(figure: Figure, words: Sequence[Annotation]) -> None:
    """Move words up, in points, that would stand on those before them."""
    if len(words) < 2:
        return
    figure.draw_without_rendering()
    placed = []
    for each in words:
        box = each.get_window_extent()
        while under := [other.y1 for other in placed if other.overlaps(box)]:
            up = max(under) + 1 - box.y0
            box = box.translated(0, up)
            each.xyann = (each.xyann[0], each.xyann[1] + 72 * up / figure.dpi)
        placed.append(box)


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
    if is_narrow() and figure.get_figwidth() <= PHONE:
        _fit_labels(figure)
    plt.close(figure)  # shown once, where it is returned
    return figure


def _fit_labels(figure: Figure) -> None:
    """Break what is written beside an axis where it is longer than the axis."""
    figure.draw_without_rendering()
    for axis in figure.axes:
        room = axis.get_window_extent()
        for words, side in (
            (axis.xaxis.label, "width"),
            (axis.yaxis.label, "height"),
            (axis.title, "width"),
        ):
            taken = getattr(words.get_window_extent(), side) / figure.dpi
            most = max(getattr(room, side) / figure.dpi, 1)
            if taken > 1.15 * most:
                words.set_text(wrapped(words.get_text(), most))


def draw_image(axes, image: Tensor) -> None:
    """An image of uint8, "channels height width", without a frame of numbers."""
    pixels = rearrange(image, "c h w -> h w c").squeeze(-1).cpu().numpy()
    axes.imshow(pixels, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    axes.set(xticks=[], yticks=[])
