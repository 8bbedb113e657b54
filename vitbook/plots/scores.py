"""Still figures of scores with their intervals."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vitbook.plots.page import for_pages
from vitbook.plots.style import COLORS, finish, fitted, legend_below, named, wrapped

Span = Sequence[float | int]


@for_pages
def intervals(
    spans: Mapping[str, Span],
    title: str,
    *,
    x_label: str,
    levels: Mapping[str, float | int] | None = None,
) -> Figure:
    """A dot with its interval for each name, one below the other.

    Args:
        spans: name -> (mean, low, high).
        levels: name -> place of a dashed upright line to compare with.
    """
    figure, axis = plt.subplots(
        figsize=fitted(6.2, _height(spans, 0.36) + 1.6), layout="constrained"
    )
    for (name, place), style in zip((levels or {}).items(), cycle(("--", "-.", ":")), strict=False):
        axis.axvline(place, color="gray", linestyle=style, linewidth=1.2, label=name)
    _spans(axis, spans)
    legend_below(figure, named(axis))
    axis.invert_yaxis()
    axis.set_xlabel(x_label)
    sns.despine(figure)
    return finish(figure, title)


def _name(words: str) -> str:
    return wrapped(words, 1.7)


def _height(names: Iterable[str], line: float) -> float:
    """What the names take below one another, in inches: more where they go on in a third line."""
    names = [_name(name) for name in names]
    return len(names) * max([line, *(0.15 * name.count("\n") + 0.2 for name in names)])


def _spans(axis: Axes, spans: Mapping[str, Span]) -> None:
    for line, (mean, low, high) in enumerate(spans.values()):
        axis.plot([low, high], [line, line], color=COLORS[0], linewidth=2.5)
        axis.plot(mean, line, "o", color=COLORS[0])
    axis.set_yticks(range(len(spans)), [_name(name) for name in spans])
