"""``vitbook moves``: what checkpoints still read when images move sideways."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import torch.nn.functional as F
import typer
from jaxtyping import UInt8
from torch import Tensor

from vitbook import runs
from vitbook.cli.checkpoint_data import all_with_data
from vitbook.cli.options import Device, OtherData
from vitbook.cli.tables import print_table
from vitbook.devices import choose_device, set_threads
from vitbook.training import evaluate

KIND = "moves"


def moves(
    checkpoints: Annotated[
        list[str],
        typer.Argument(help="Files that `vitbook train` wrote, or names of the book's own."),
    ],
    most: Annotated[int, typer.Option(help="Pixels, to the right and to the left.")] = 2,
    dataset: OtherData = None,
    split: Annotated[str | None, typer.Option(help="By default the held-out one.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the measurement.")] = Path("runs"),
    threads: Annotated[int | None, typer.Option(help="Of the CPU; by default all.")] = None,
    device: Device = None,
) -> None:
    """Say how many images are read after a move by each number of pixels, right and left.

    What leaves the image is lost, and zero comes in.
    """
    set_threads(threads)
    place, rows = choose_device(device), []
    subject, about, asked = all_with_data(checkpoints, dataset, split, KIND, out)
    for name, loaded, images in asked:
        side = images.images.shape[3]
        if not 1 <= most < side:
            raise ValueError(f"--most {most}: expected 1 to {side - 1} for {side} pixels")
        model = loaded.model.to(place)
        steps = range(-most, most + 1)
        sets = (replace(images, images=moved(images.images, right)) for right in steps)
        read = [round(evaluate(model, each), 6) for each in sets]
        rows.append({"run": name, "model": loaded.model.spec.name, "accuracy": read})
    print_table([_line(row) for row in rows])
    measured = runs.Measurement(
        kind=KIND,
        subject=subject,
        settings={
            **about,
            "accuracy": "by pixels moved to the right; what leaves is lost, zero comes in",
            "right": [*range(-most, most + 1)],
        },
        rows=rows,
        **runs.made_on(place),
    )  # fmt: skip
    typer.echo(f"wrote {runs.record(measured, out)}")


def moved(
    images: UInt8[Tensor, "n channels height width"], right: int
) -> UInt8[Tensor, "n channels height width"]:
    """Images whose content lies so many pixels further to the right."""
    far, width = abs(right), images.shape[3]
    return F.pad(images, (far, far))[..., far - right : far - right + width]


def _line(row: dict) -> dict[str, str]:
    most = len(row["accuracy"]) // 2
    shares = enumerate(row["accuracy"], start=-most)
    return {"run": row["run"]} | {f"{right:+d} px": f"{share:.2%}" for right, share in shares}
