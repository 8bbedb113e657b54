"""What the chapter on tokens of tokens measures and draws."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated

import matplotlib.pyplot as plt
import seaborn as sns
import torch.nn.functional as F
import typer
from jaxtyping import UInt8
from matplotlib.figure import Figure
from torch import Tensor, nn

from vitbook import datasets
from vitbook.plots.page import for_pages
from vitbook.plots.style import COLORS, INK, finish, fitted, in_line, legend_below, lift, named
from vitbook.runs.measuring import Sheet, measurement
from vitbook.training import evaluate
from vitbook.training.asked import Checkpoints, OtherData, Split, rows_of_checkpoints


def _lines(rows: list[dict]) -> list[dict[str, str]]:
    most = len(rows[0]["accuracy"]) // 2
    return [
        {"run": row["run"]}
        | {f"{right:+d} px": f"{read:.2%}" for right, read in enumerate(row["accuracy"], -most)}
        for row in rows
    ]


@measurement(moves=_lines)
def moves(
    sheet: Sheet,
    checkpoints: Checkpoints,
    most: Annotated[int, typer.Option(help="Pixels, to the right and to the left.")] = 2,
    dataset: OtherData = None,
    split: Split = None,
) -> None:
    """Say how many images are read after a move by each number of pixels, right and left.

    What leaves the image is lost, and zero comes in.
    """
    steps = range(-most, most + 1)

    def row(model: nn.Module, images: datasets.Dataset) -> dict:
        side = images.images.shape[3]
        if not 1 <= most < side:
            raise ValueError(f"--most {most}: expected 1 to {side - 1} for {side} pixels")
        sets = (replace(images, images=moved(images.images, right)) for right in steps)
        return {"accuracy": [round(evaluate(model, each), 6) for each in sets]}

    subject, about, rows = rows_of_checkpoints(sheet, checkpoints, dataset, split, row)
    settings = about | {
        "accuracy": "by pixels moved to the right; what leaves is lost, zero comes in",
        "right": list(steps),
    }
    sheet.write(subject, settings, rows)


def moved(
    images: UInt8[Tensor, "n channels height width"], right: int
) -> UInt8[Tensor, "n channels height width"]:
    """Images whose content lies so many pixels further to the right."""
    far, width = abs(right), images.shape[3]
    return F.pad(images, (far, far))[..., far - right : far - right + width]


MARKERS = "osv^DP"


@for_pages
def accuracy_against_cost(rows: Sequence[Mapping], costs: Mapping[str, str], title: str) -> Figure:
    """Accuracy against each cost, a panel for each; steps join the models that no other beats.

    These have their names; families have a colour and a marker.

    Args:
        rows: of the models: "name", "family", "accuracy" from 0 to 1, and a number for each cost.
        costs: key of the rows -> words under the axis, which is logarithmic.
    """
    families = list(dict.fromkeys(row["family"] for row in rows))
    down, across = in_line(len(costs))
    figure, panels = plt.subplots(
        down, across, figsize=fitted(4.2 * across, 3.6 * down + 0.4), sharey=True, squeeze=False,
        layout="constrained",
    )  # fmt: skip
    names = []
    for axes, (cost, words) in zip(panels.flat, costs.items(), strict=True):
        for family, color, marker in zip(families, COLORS, MARKERS, strict=False):
            own = [(row[cost], 100 * row["accuracy"]) for row in rows if row["family"] == family]
            axes.plot(*zip(*own, strict=True), marker, color=color, label=family)
        steps = []
        for row in sorted(rows, key=lambda row: (row[cost], -row["accuracy"])):
            if not steps or row["accuracy"] > steps[-1]["accuracy"]:
                steps.append(row)
        places = [(row[cost], 100 * row["accuracy"]) for row in steps]
        axes.step(*zip(*places, strict=True), where="post", color=INK, linewidth=1, zorder=0)
        for row, place in zip(steps, places, strict=True):
            names.append(axes.annotate(
                row["name"], place, (-4, 4), textcoords="offset points", ha="right", fontsize=7
            ))  # fmt: skip
        axes.set(xscale="log", xlabel=words)
    for axes in panels[:, 0]:
        axes.set_ylabel("accuracy, %")
    legend_below(figure, named(*panels.flat))
    sns.despine(figure)
    figure.draw_without_rendering()
    for name in names:
        box, axes = name.get_window_extent(), name.axes.bbox
        if box.x0 < axes.x0 and box.x1 + box.width < axes.x1:  # else it would cross the axis
            name.set(ha="left", x=4, in_layout=False)
    lift(figure, names)
    return finish(figure, title)
