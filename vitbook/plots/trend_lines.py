"""Scores over a cost, each series with places of its own, and their intervals."""

from collections.abc import Mapping, Sequence
from itertools import chain, cycle

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator

from vitbook.plots.page import for_pages
from vitbook.plots.style import (
    COLORS,
    draw_levels,
    finish,
    fitted,
    in_line,
    legend_below,
    named,
)

Point = Sequence[float | int]
MARKERS = ("o", "s", "^", "D", "v", "P")


@for_pages
def trends(
    panels: Mapping[str, Mapping[str, Sequence[Point]]],
    title: str,
    *,
    x_label: str,
    y_label: str,
    log_x: bool = True,
    log_y: bool = False,
    grey: Sequence[str] = (),
    levels: Mapping[str, float | int] | None = None,
) -> Figure:
    """Panels of curves over a cost, on one shared vertical scale.

    A curve has one colour and one marker in all panels, and one entry in the legend.

    Args:
        panels: name of the panel -> name of the curve -> its points, (x, y) or (x, y, low, high)
            with the ends of an interval. A curve may have one point, or none.
        log_x: a logarithmic cost.
        log_y: a logarithmic score.
        grey: curves that stand for nothing learned, dashed and grey.
        levels: name -> height of a dashed line to compare with.
    """
    names = list(dict.fromkeys(name for panel in panels.values() for name in panel))
    looks = _looks(names, grey)
    rows, columns = in_line(len(panels))
    figure, axes = plt.subplots(
        rows, columns, figsize=fitted(5.8 if len(panels) == 1 else 3.5 * columns, 2.7 * rows + 1),
        sharey=True, squeeze=False, layout="constrained",
    )  # fmt: skip
    for axis, (panel, curves) in zip(axes.flat, panels.items(), strict=True):
        for name, points in curves.items():
            _draw(axis, name, points, looks[name])
        draw_levels(axis, levels)  # named below: beside its line a curve would cross the name
        axis.set(xlabel=x_label)
        if log_x:
            _log_ticks(axis, "x")
        elif all(isinstance(point[0], int) for points in curves.values() for point in points):
            axis.xaxis.get_major_locator().set_params(integer=True)  # no layer 2.5
        if len(panels) > 1:
            axis.set_title(panel)
    for axis in axes[:, 0]:
        axis.set_ylabel(y_label)
    if log_y:
        for axis in axes.flat:
            _log_ticks(axis, "y")
    legend_below(figure, named(*axes.flat))
    sns.despine(figure)
    return finish(figure, title)


def _log_ticks(axes, way: str) -> None:
    """Tens along ``way`` ("x" or "y"), twos or even steps where it has few: plain numbers."""
    getattr(axes, f"set_{way}scale")("log")
    low, high = getattr(axes, f"get_{way}lim")()
    tens, axis = high > 50 * low, getattr(axes, f"{way}axis")
    few = LogLocator(10 if tens else 2, numticks=20) if high > 4 * low else MaxNLocator(5)
    axis.set_major_locator(few)
    axis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    axis.set_minor_formatter(NullFormatter())
    if not tens:
        axis.set_minor_locator(NullLocator())


def _looks(names: Sequence[str], grey: Sequence[str]) -> dict[str, dict]:
    # After six colours another marker for each: 36 curves that are told apart.
    turned = (MARKERS[turn:] + MARKERS[:turn] for turn in cycle(range(len(MARKERS))))
    styles, looks = zip(cycle(COLORS), chain.from_iterable(turned), strict=False), {}
    greys = zip(cycle(("#555555", "#999999", "#777777")), cycle(("x", "+", "1", "2")), strict=False)
    for name in names:
        color, marker = next(greys if name in grey else styles)
        dashes = "--" if name in grey else "-"
        looks[name] = dict(color=color, marker=marker, linestyle=dashes)
    return looks


def _draw(axis, name: str, points: Sequence[Point], look: dict) -> None:
    if not points:
        return
    points = sorted(points, key=lambda point: point[0])
    x, y = [point[0] for point in points], [point[1] for point in points]
    axis.plot(x, y, label=name, markersize=6, **look)
    for point in points:
        if len(point) == 4:
            axis.plot([point[0]] * 2, point[2:], color=look["color"], linewidth=1.3, alpha=0.8)
