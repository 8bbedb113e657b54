"""What the chapter on small data measures."""

from typing import Annotated

import typer
from torch import nn

from vitbook import datasets, training
from vitbook.runs.measuring import Sheet, measurement
from vitbook.training.asked import Checkpoints, OtherData, rows_of_checkpoints


def _lines(rows: list[dict]) -> list[dict[str, str]]:
    return [
        {
            "run": row["run"],
            "loss": f"{row['loss']:.4f}",
            "uphill": f"{row['uphill']:.4f}",
            "rise": f"{row['uphill'] - row['loss']:.4f}",
            "length of the weights": f"{row['length']:.2f}",
        }
        for row in rows
    ]


@measurement(sharpness=_lines)
def sharpness(
    sheet: Sheet,
    checkpoints: Checkpoints,
    radius: Annotated[float, typer.Option(help="How far uphill, over all weights.")] = 0.05,
    dataset: OtherData = None,
    split: Annotated[str, typer.Option(help="Of the data set.")] = "train",
) -> None:
    """Say how far the mean loss rises where the weights take one step uphill, as SAM does.

    Checkpoints of one architecture can be compared: the length of the step is that of the weights.
    """

    def row(model: nn.Module, images: datasets.Dataset) -> dict:
        found = training.sharpness(model, images, radius)
        length = nn.utils.get_total_norm(list(model.parameters())).item()
        return {
            "loss": round(found.loss, 6), "uphill": round(found.uphill, 6),
            "length": round(length, 4),
        }  # fmt: skip

    subject, about, rows = rows_of_checkpoints(sheet, checkpoints, dataset, split, row)
    settings = about | {
        "radius": radius,
        "loss": "mean cross-entropy; uphill: where the weights went so far along its gradient",
        "length": "of all weights, as one vector",
    }
    sheet.write(subject, settings, rows)
