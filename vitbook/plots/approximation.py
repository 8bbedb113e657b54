"""Still figures of what an approximation loses; see :mod:`vitbook.plots`."""

from collections.abc import Collection, Mapping

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.figure import Figure

from vitbook.plots.page import for_pages
from vitbook.plots.style import COLORS, draw_levels, finish, fitted, legend_below, named


@for_pages
def accuracy_and_error(
    sizes: Collection[int],
    accuracy: Mapping[str, Collection[float | int]],
    error: Mapping[str, Collection[float | int]],
    title: str,
    *,
    x_label: str,
    levels: Mapping[str, float | int],
) -> Figure:
    """What a model still gets right with its attention replaced, above the error of the maps.

    Both panels share the sizes of the approximation, on powers of two, and start at zero.

    Args:
        accuracy: name of the approximation -> a share for each size.
        error: name -> relative error of its maps for each size; a name keeps its colour.
        levels: name -> height of a grey line to compare the accuracies with.

    Raises:
        KeyError: an error without an accuracy of that name.
    """
    if other := sorted(error.keys() - accuracy.keys()):
        raise KeyError(f"errors of {', '.join(other)}: expected names that have an accuracy too")
    sizes = list(sizes)
    figure, (top, low) = plt.subplots(
        2, 1, figsize=fitted(6.4, 6.2), sharex=True, layout="constrained"
    )
    looks = dict(zip(accuracy, zip(COLORS, "osD^vP", strict=False), strict=False))
    for axis, series in ((top, accuracy), (low, error)):
        for name, values in series.items():
            color, marker = looks[name]
            axis.plot(sizes, list(values), marker=marker, color=color, label=name)
    draw_levels(top, levels)
    top.set(ylabel="accuracy", ylim=(0, 1.05))
    low.set(ylabel="relative error of the maps", xlabel=x_label, ylim=(0, None))
    low.set_xscale("log", base=2)
    low.set_xticks(sizes, [f"{size:,}" for size in sizes])
    low.minorticks_off()
    legend_below(figure, named(top))
    sns.despine(figure)
    return finish(figure, title)
