"""The ``vitbook`` command."""

import sys
from pathlib import Path
from typing import Annotated

from vitbook.extras import from_extra

try:
    with from_extra("train"):
        import typer

        from vitbook.cli import data, experiments, measure, weights
        from vitbook.cli.export import export
        from vitbook.cli.ledger import show
        from vitbook.cli.models import models
        from vitbook.cli.options import Device
        from vitbook.cli.page import page
        from vitbook.cli.probe import probe
        from vitbook.cli.train import train
        from vitbook.cli.workplace import WorkError
        from vitbook.devices import choose_device
        from vitbook.training import (
            RunStoppedError,
            TrainingDivergedError,
            evaluate,
        )
        from vitbook.training.asked import data_name, load_with_data
        from vitbook.training.engine.memory import is_out_of_memory
except ModuleNotFoundError as error:  # a sentence, not a traceback
    sys.exit(f"vitbook: {error}")

app = typer.Typer(
    help="Vision Transformers, built, trained and looked into.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

for command in (export, models, page, probe, train):
    app.command()(command)
app.command(name="results")(show)
app.add_typer(data.app, name="data")
app.add_typer(experiments.app, name="experiments")
app.add_typer(measure.app, name="measure")
app.add_typer(weights.app, name="weights")


@app.command(name="evaluate")
def evaluate_checkpoint(
    checkpoint: Annotated[
        Path, typer.Argument(help="A file that `vitbook train` wrote, or one of the book's own.")
    ],
    dataset: Annotated[
        str | None,
        typer.Argument(
            help="A name or a path; by default the one that it was trained on.", callback=data_name
        ),
    ] = None,
    split: Annotated[str | None, typer.Option(help="By default the held-out one.")] = None,
    device: Device = None,
) -> None:
    """Top-1 accuracy of a checkpoint."""
    loaded, images = load_with_data(checkpoint, dataset, split)
    model = loaded.model.to(choose_device(device))
    typer.echo(
        f"{evaluate(model, images):.2%} of {len(images):,} images of {images.provenance['name']}, "
        f"{images.provenance['split']}"
    )


REFUSALS = (
    *(ValueError, TypeError, LookupError, OSError, ImportError, MemoryError),
    *(TrainingDivergedError, RunStoppedError, WorkError),
)


def main() -> None:
    """Run the command; what the library refuses is one sentence, not a traceback."""
    try:
        app()
    except REFUSALS as e:
        message = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
        if isinstance(e, OSError) and e.filename is not None:
            message = f"{e.filename}: {message}"
    except RuntimeError as e:
        if not is_out_of_memory(e):
            raise
        told = str(e).splitlines()[0]
        message = f"out of memory ({told}): ask for smaller images, or take another device"
    else:
        return
    typer.echo(f"vitbook: {message}", err=True)
    raise SystemExit(2)


if __name__ == "__main__":
    main()
