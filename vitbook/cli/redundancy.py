"""``vitbook redundancy``: how far the channels and layers of checkpoints repeat each other."""

from pathlib import Path
from typing import Annotated

import typer

from vitbook import runs
from vitbook.analysis import layer_redundancy
from vitbook.cli.checkpoint_data import all_with_data
from vitbook.cli.options import Device, OtherData
from vitbook.cli.tables import print_table
from vitbook.devices import choose_device, set_threads
from vitbook.training.engine.evaluation import as_pixels

KIND = "redundancy"


def redundancy(
    checkpoints: Annotated[
        list[str],
        typer.Argument(help="Files that `vitbook train` wrote, or names of the book's own."),
    ],
    dataset: OtherData = None,
    split: Annotated[str | None, typer.Option(help="By default the held-out one.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the measurement.")] = Path("runs"),
    threads: Annotated[int | None, typer.Option(help="Of the CPU; by default all.")] = None,
    device: Device = None,
) -> None:
    """Count the channels that a layer uses, their share of its width, and how alike layers are.

    Each number is a mean over the blocks of a checkpoint.
    """
    set_threads(threads)
    place, rows = choose_device(device), []
    subject, about, asked = all_with_data(checkpoints, dataset, split, KIND, out)
    for name, loaded, images in asked:
        model = loaded.model.to(place)
        try:
            found = layer_redundancy(model, as_pixels(images.images, model))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
        rows.append(
            {
                "run": name,
                "model": loaded.model.spec.name,
                "channels": round(found.channels, 4),
                "share": round(found.share, 5),
                "likeness": round(found.likeness, 5),
            }
        )
    print_table([_line(row) for row in rows])
    measured = runs.Measurement(
        kind=KIND,
        subject=subject,
        settings={
            **about,
            "channels": "effective, by the participation ratio of the channels' correlations",
            "share": "of them in a layer's channels",
            "likeness": "linear CKA of neighbouring blocks",
            "mean": "over the blocks",
        },
        rows=rows,
        **runs.made_on(place),
    )  # fmt: skip
    typer.echo(f"wrote {runs.record(measured, out)}")


def _line(row: dict) -> dict[str, str]:
    return {
        "run": row["run"],
        "effective channels": f"{row['channels']:.1f}",
        "share of width": f"{row['share']:.3f}",
        "CKA of neighbours": f"{row['likeness']:.3f}",
    }
