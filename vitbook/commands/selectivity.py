"""``vitbook selectivity``: how many other tokens the attention of checkpoints uses."""

from functools import cache
from pathlib import Path
from typing import Annotated

import torch
import typer

from vitbook import datasets, results
from vitbook.analysis import capture_attention, others_in_use
from vitbook.commands.checkpoint_data import load_with_data
from vitbook.commands.options import Device, stems
from vitbook.commands.tables import print_table
from vitbook.devices import choose_device, set_threads

KIND = "selectivity"


def selectivity(
    checkpoints: Annotated[
        list[str],
        typer.Argument(help="Files that `vitbook train` wrote, or names of the book's own."),
    ],
    dataset: Annotated[
        str | None, typer.Option(help="By default the one that the first was trained on.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="By default the held-out one.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the measurement.")] = Path("runs"),
    threads: Annotated[int | None, typer.Option(help="Of the CPU; by default all.")] = None,
    device: Device = None,
) -> None:
    """Say which share of the other tokens a query uses, layer by layer: a mean over its heads."""
    names = stems(checkpoints)
    set_threads(threads)
    place = choose_device(device)
    rows, shown, load = [], {}, cache(datasets.load)
    for name, checkpoint in zip(names, checkpoints, strict=True):
        loaded, images = load_with_data(checkpoint, dataset, split, load)
        if not shown:  # the others are asked about the first one's images
            shown = images.provenance
            dataset = dataset or loaded.provenance.get("dataset", "digits")
            results.check_place(KIND, dataset, out)
        model = loaded.model.to(place).eval()
        try:
            with torch.no_grad(), capture_attention(model, reduce=others_in_use) as used:
                model(datasets.normalize(images.images).to(place))
        except (ValueError, RuntimeError) as error:
            raise ValueError(f"{name}: {error}") from error
        shares = [round(heads.mean().item(), 5) for heads in used.values()]
        rows.append({"run": name, "model": loaded.model.spec.name, "used": shares})
    print_table([_line(row) for row in rows])
    measured = results.Measurement(
        kind=KIND,
        subject=dataset,
        settings={
            "dataset": shown["name"], "split": shown["split"], "images": len(images),
            "used": "share of the other tokens, e to the entropy of a row without itself, by layer",
        },
        rows=rows,
        **results.made_on(place),
    )  # fmt: skip
    typer.echo(f"wrote {results.record(measured, out)}")


def _line(row: dict) -> dict[str, str]:
    mean = sum(row["used"]) / len(row["used"])
    layers = enumerate(row["used"], start=1)
    return {"run": row["run"], "mean": f"{mean:.3f}"} | {f"{n}": f"{x:.3f}" for n, x in layers}
