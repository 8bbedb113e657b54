"""Lines over layers, epochs, distances."""

from collections.abc import Collection, Mapping
from itertools import cycle

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from torch import Tensor

from vitbook.plots.page import for_pages, is_narrow
from vitbook.plots.style import (
    COLORS,
    INK,
    draw_levels,
    finish,
    fitted,
    legend_below,
    lift,
    named,
    wrapped,
)


@for_pages
def lines(
    x: Collection,
    series: Mapping[str, Collection],
    title: str,
    *,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    ratio_y: bool = False,
    y_limits: tuple[float, float] | None = None,
    levels: Mapping[str, float | int] | None = None,
    mark_x: Mapping[str, float | int] | None = None,
) -> Figure:
    """Curves over one axis, named in a legend below it.

    Args:
        x: numbers, or words that stand side by side.
        ratio_y: heights are ratios above 0: twice stands as far from 1 as a half.
        levels: name -> height of a dashed line to compare with.
        mark_x: name -> place of a dotted upright line.
    """
    x = list(x)
    figure, axis = plt.subplots(figsize=fitted(5.8, 3.8), layout="constrained")
    for name, y in series.items():
        axis.plot(x, y, marker="o" if len(x) < 20 else None, label=name)
    draw_levels(axis, levels)
    marks = []
    for name, place in (mark_x or {}).items():
        axis.axvline(place, color="gray", linestyle=":", linewidth=1.2)
        marks.append(axis.annotate(
            wrapped(name, 1.7), (place, 1), xycoords=("data", "axes fraction"), xytext=(0, 2),
            textcoords="offset points", va="bottom", ha="center", fontsize=9, color=INK,
        ))  # fmt: skip
    axis.set(xlabel=x_label, ylabel=y_label)
    if log_x:  # to set the linear scale again would take the names off an axis of words
        axis.set_xscale("log")
    elif all(isinstance(place, int) for place in x):
        axis.xaxis.get_major_locator().set_params(integer=True)  # no layer 1.5
    elif is_narrow() and all(isinstance(place, str) for place in x):
        axis.set_xticks(x, [wrapped(word, 3 / len(x)) for word in x])
    if y_limits is not None:
        axis.set_ylim(*y_limits)
    if ratio_y:
        axis.set_yscale("log", base=2)
        axis.yaxis.set_major_formatter(lambda value, _: _ratio(value))
        axis.yaxis.set_minor_locator(NullLocator())
    legend_below(figure, named(axis))
    sns.despine(figure)
    lift(figure, marks)
    return finish(figure, title)


def _ratio(value: float) -> str:
    return f"{value:g}" if value >= 1 else f"1/{1 / value:g}"


@for_pages
def distance_by_layer(
    distances: Mapping[str, Tensor],
    uniform: float | int,
    title: str,
    *,
    null: Mapping[str, Tensor] | None = None,
    levels: Mapping[str, float | int] | None = None,
    unit: str = "px",
    quantity: str = "mean attention distance",
) -> Figure:
    """One dot a head over its layer, a panel a model, as figures 7 and 11 of the ViT paper.

    A short bar is the mean of a layer's heads. Dots carry one colour: a head's number means
    nothing from one layer to the next.

    Args:
        distances: name -> "layers heads".
        uniform: where attention alike on every patch would be, drawn as a dashed line.
        null: name -> "layers heads" of the same model before training, drawn as grey crosses.
        levels: name -> height of a dotted line to compare with.
        unit: of ``uniform`` and ``distances``; "" for a share.
        quantity: what is measured, for the axis.
    """
    widths = [max(2.3, 0.2 * len(values)) for values in distances.values()]
    if is_narrow():
        rows, widths = len(widths), [max(widths)]
    else:
        rows = 1
    figure, axes = plt.subplots(
        rows, len(widths), sharey=True, squeeze=False, layout="constrained",
        figsize=fitted(sum(widths) + 1.2, 2.4 * rows + 1.2), width_ratios=widths,
    )  # fmt: skip
    for axis, color, (name, values) in zip(
        axes.flat, cycle(COLORS), distances.items(), strict=False
    ):
        depth, heads = len(values), values.float().cpu().numpy()
        layers, pace = range(1, depth + 1), 1 if depth < 9 else round(depth / 3)
        axis.axhline(uniform, color="gray", linestyle="--", linewidth=1.2, zorder=0)
        for level in (levels or {}).values():
            axis.axhline(level, color="gray", linestyle=":", linewidth=1.2, zorder=0)
        if null and name in null:
            crosses = null[name].float().cpu().numpy()
            axis.plot(layers, crosses, "x", color="gray", markersize=5)
        axis.plot(layers, heads, "o", color=color, alpha=0.65, markeredgecolor="white")
        axis.plot(layers, heads.mean(1), "_", color=INK, markersize=13, markeredgewidth=1.8)
        axis.set(xlabel="layer", title=name, xlim=(0.3, depth + 0.7))
        axis.set_xticks(sorted({1, *layers[pace - 1 :: pace]}))
    drawn = (*distances.values(), *(null or {}).values())
    top = max(uniform, *(float(values.nan_to_num().max()) for values in drawn))
    axes[0, 0].set(ylim=(-0.02 * top, 1.12 * top))
    names = []
    for row in axes:
        row[0].set_ylabel(wrapped(f"{quantity} ({unit})" if unit else quantity, 1.6))
        for name, level in {"even": uniform, **(levels or {})}.items():
            names.append(row[-1].annotate(
                f"{wrapped(name, 1)}:\n{level:.3g} {unit}".strip(), (1, level),
                xycoords=("axes fraction", "data"), xytext=(4, 0), textcoords="offset points",
                va="center", fontsize=9, color=INK,
            ))  # fmt: skip
    sns.despine(figure)
    lift(figure, sorted(names, key=lambda name: name.xy[1]))
    return finish(figure, title)
