"""``vitbook sharpness``: how steeply the loss rises around the weights of checkpoints."""

from pathlib import Path
from typing import Annotated

import typer
from torch import nn

from vitbook import runs
from vitbook.cli.checkpoint_data import all_with_data
from vitbook.cli.options import Device, OtherData
from vitbook.cli.tables import print_table
from vitbook.devices import choose_device, set_threads
from vitbook.training import sharpness as measured_sharpness

KIND = "sharpness"


def sharpness(
    checkpoints: Annotated[
        list[str],
        typer.Argument(help="Files that `vitbook train` wrote, or names of the book's own."),
    ],
    radius: Annotated[float, typer.Option(help="How far uphill, over all weights.")] = 0.05,
    dataset: OtherData = None,
    split: Annotated[str, typer.Option(help="Of the data set.")] = "train",
    out: Annotated[Path, typer.Option(help="Folder of the measurement.")] = Path("runs"),
    threads: Annotated[int | None, typer.Option(help="Of the CPU; by default all.")] = None,
    device: Device = None,
) -> None:
    """Say how far the mean loss rises where the weights take one step uphill, as SAM does.

    Checkpoints of one architecture can be compared: the length of the step is that of the weights.
    """
    set_threads(threads)
    place, rows = choose_device(device), []
    subject, about, asked = all_with_data(checkpoints, dataset, split, KIND, out)
    for name, loaded, images in asked:
        try:
            found = measured_sharpness(loaded.model.to(place), images, radius)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
        rows.append(
            {
                "run": name,
                "model": loaded.model.spec.name,
                "loss": round(found.loss, 6),
                "uphill": round(found.uphill, 6),
                "length": round(_length(loaded.model), 4),
            }
        )
    print_table([_line(row) for row in rows])
    measured = runs.Measurement(
        kind=KIND,
        subject=subject,
        settings={
            **about,
            "radius": radius,
            "loss": "mean cross-entropy; uphill: where the weights went so far along its gradient",
            "length": "of all weights, as one vector",
        },
        rows=rows,
        **runs.made_on(place),
    )  # fmt: skip
    typer.echo(f"wrote {runs.record(measured, out)}")


def _length(model: nn.Module) -> float:
    return nn.utils.get_total_norm(list(model.parameters())).item()


def _line(row: dict) -> dict[str, str]:
    return {
        "run": row["run"],
        "loss": f"{row['loss']:.4f}",
        "uphill": f"{row['uphill']:.4f}",
        "rise": f"{row['uphill'] - row['loss']:.4f}",
        "length of the weights": f"{row['length']:.2f}",
    }
