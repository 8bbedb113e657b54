"""Still figures of scores with their intervals."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.figure import Figure

from vitbook.plotting.style import COLORS, finish

Span = Sequence[float | int]


def leads(
    first: Mapping[str, Span],
    second: Mapping[str, Span],
    title: str,
    *,
    labels: tuple[str, str],
    x_label: str,
) -> Figure:
    """Two panels of intervals around zero, a line for each name, on one shared scale.

    The dot is hollow where the interval holds zero.

    Args:
        first, second: name -> (mean, low, high), the same names in both.
        labels: of the two panels.

    Raises:
        ValueError: other names in the second than in the first.
    """
    if list(first) != list(second):
        raise ValueError(
            f"{', '.join(first)} beside {', '.join(second)}: expected the same names in one order"
        )
    figure, axes = plt.subplots(
        1, 2, figsize=(6.6, 0.34 * len(first) + 1.3), sharex=True, sharey=True,
        layout="constrained",
    )  # fmt: skip
    for axis, label, spans in zip(axes, labels, (first, second), strict=True):
        axis.axvline(0, color="gray", linewidth=1.2, linestyle="--")
        for line, (mean, low, high) in enumerate(spans.values()):
            decided = low > 0 or high < 0
            axis.plot([low, high], [line, line], color=COLORS[0], linewidth=2.5)
            axis.plot(
                mean, line, "o", color=COLORS[0], markerfacecolor=None if decided else "white"
            )
        axis.set_title(label, fontsize=10)
        axis.set_yticks(range(len(first)), list(first))
    axes[0].invert_yaxis()
    figure.supxlabel(x_label, fontsize=10)
    sns.despine(figure)
    return finish(figure, title)
