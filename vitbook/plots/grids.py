"""Scores over two settings at once."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from vitbook.plots.page import for_pages, is_narrow
from vitbook.plots.style import HEAT, INK, ON_DARK, ON_LIGHT, finish, fitted, wrapped

Settings = tuple[float | int, float | int]


@for_pages
def score_grids(
    panels: Mapping[str, Mapping[Settings, float | int]],
    title: str,
    *,
    x_label: str,
    y_label: str,
    limits: Settings = (0, 100),
    columns: int = 2,
) -> Figure:
    """A grid a panel, a cell for each pair of settings, coloured and with its score written in it.

    All panels have the same rows and columns, those that any of them has; a pair without a score
    says "not run".

    Args:
        panels: name -> (x, y) -> score.
        limits: scores at the two ends of the colours.
        columns: panels side by side.

    Raises:
        ValueError: no scores at all, or limits that do not rise.
    """
    pairs = [pair for panel in panels.values() for pair in panel]
    if not pairs:
        raise ValueError("no scores: expected {panel: {(x, y): score}}")
    if not limits[0] < limits[1]:
        raise ValueError(f"limits {limits}: expected the lower one first")
    across, up = (sorted({pair[axis] for pair in pairs}) for axis in (0, 1))
    columns = min(1 if is_narrow() else columns, len(panels))
    rows = -(-len(panels) // columns)
    figure, axes = plt.subplots(
        rows, columns, squeeze=False, sharex=True, sharey=True, layout="constrained",
        figsize=fitted(columns * (0.62 * len(across) + 0.7), rows * (0.42 * len(up) + 0.7) + 0.5),
    )  # fmt: skip
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    for axis, (name, panel) in zip(axes.flat, panels.items(), strict=False):
        scores = np.array([[panel.get((x, y), np.nan) for x in across] for y in up], dtype=float)
        axis.imshow(scores, cmap=HEAT, vmin=limits[0], vmax=limits[1], origin="lower")
        for (row, column), score in np.ndenumerate(scores):
            dark = score - limits[0] < 0.6 * (limits[1] - limits[0])
            axis.text(
                column, row, "not run" if np.isnan(score) else f"{score:.0f}", va="center",
                ha="center", fontsize=6 if np.isnan(score) else 9,
                color=INK if np.isnan(score) else ON_DARK if dark else ON_LIGHT,
            )  # fmt: skip
        axis.set_title(name)
        axis.set_xticks(range(len(across)), [f"{x:g}" for x in across])
        axis.set_yticks(range(len(up)), [f"{y:g}" for y in up])
        axis.tick_params(length=0)
        axis.set_aspect("auto")
    figure.supxlabel(wrapped(x_label), fontsize=10)
    figure.supylabel(wrapped(y_label, figure.get_figheight()), fontsize=10)
    return finish(figure, title)
