"""The ``vitbook`` command."""

import os
from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import nn

from vitbook import datasets
from vitbook.analysis import mean_attention_distance, mean_weight_on_prefix
from vitbook.commands import data
from vitbook.commands.bench import bench
from vitbook.commands.models import models
from vitbook.commands.probe import probe
from vitbook.commands.results import show
from vitbook.commands.score import score
from vitbook.datasets import Dataset
from vitbook.training import (
    BatchTooLargeError,
    TrainingDivergedError,
    evaluate,
    get_recipe,
    load_checkpoint,
    run,
)

app = typer.Typer(
    help="Vision Transformers, built, trained and looked into.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Device = Annotated[str | None, typer.Option(help="cpu or cuda; by default the GPU if any.")]


@app.command()
def train(
    model: Annotated[str, typer.Argument(help="A name from `vitbook models`.")],
    dataset: Annotated[str, typer.Argument(help="A name from `vitbook data list`.")] = "digits",
    recipe: Annotated[str, typer.Option(help="A recipe by name.")] = "digits",
    epochs: Annotated[int | None, typer.Option(help="Instead of the recipe's.")] = None,
    batch: Annotated[int | None, typer.Option(help="Instead of the recipe's.")] = None,
    seed: Annotated[int, typer.Option(help="Of weights, order and augmentation.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder of the checkpoint and the result.")] = Path(
        "runs"
    ),
    half: Annotated[bool, typer.Option(help="Store the weights as float16.")] = False,
    probe_at: Annotated[
        str, typer.Option(help="Epochs after which to measure attention distance: 0,1,5,20.")
    ] = "",
    threads: Annotated[int | None, typer.Option(help="Of the CPU; by default all.")] = None,
    compile: Annotated[bool, typer.Option(help="Run through torch.compile.")] = False,
    tensorboard: Annotated[
        Path | None, typer.Option(help="Folder for TensorBoard's event files.")
    ] = None,
    save_every: Annotated[
        float, typer.Option(help="Seconds between two writings of the unfinished run.")
    ] = 60.0,
    device: Device = None,
) -> None:
    """Train a model and keep its weights and its result.

    Killed, it goes on where it was when the same command is given again. On several GPUs of one
    machine: torchrun --nproc-per-node 2 -m vitbook train ...
    """
    if threads is not None:
        torch.set_num_threads(threads)
    changes = {"epochs": epochs, "batch_size": batch}
    changes = {field: number for field, number in changes.items() if number is not None}
    result = run(
        model,
        dataset,
        get_recipe(recipe, **changes),
        seed=seed,
        folder=out,
        device=device,
        compile=compile,
        save_every_s=save_every,
        checkpoint_dtype=torch.float16 if half else None,
        probe=_look,
        probe_epochs=_epochs(probe_at),
        tensorboard=tensorboard,
    )
    if os.environ.get("RANK", "0") != "0":  # torchrun's other processes
        return
    typer.echo(
        f"{result.accuracy:.2%} on the held-out part of {dataset} after {result.wall_time_s:.0f} s"
        f" on {result.device}; wrote {out / result.name}.safetensors and .json"
    )


def _look(model: nn.Module, held_out: Dataset) -> dict:
    """What the ledger keeps of a model that goes on learning."""
    pictures = datasets.normalize(held_out.images[:128])
    return {
        "pictures": len(pictures),
        "attention_distance": _rounded(mean_attention_distance(model, pictures)),
        "weight_on_prefix": _rounded(mean_weight_on_prefix(model, pictures)),
    }


def _epochs(words: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in words.split(",") if word)
    except ValueError:
        raise ValueError(f"--probe-at {words}: expected epochs such as 0,1,5,20") from None


def _rounded(numbers: torch.Tensor) -> list[list[float]]:
    return [[round(number, 4) for number in layer] for layer in numbers.tolist()]


app.command(name="bench")(bench)
app.command(name="models")(models)
app.command(name="probe")(probe)
app.command(name="results")(show)
app.command(name="score")(score)
app.add_typer(data.app, name="data")


@app.command(name="evaluate")
def evaluate_checkpoint(
    checkpoint: Annotated[
        Path, typer.Argument(help="A file that `vitbook train` wrote, or one of the book's own.")
    ],
    dataset: Annotated[
        str | None, typer.Argument(help="By default the one that it was trained on.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="By default the held-out one.")] = None,
    device: Device = None,
) -> None:
    """Top-1 accuracy of a checkpoint."""
    loaded = load_checkpoint(checkpoint)
    dataset = dataset or loaded.provenance.get("dataset", "digits")
    split = split or datasets.held_out_split(dataset)
    held_out = datasets.load(dataset, split, image_size=loaded.model.spec.image_size)
    model = loaded.model.to(device or "cpu")
    typer.echo(
        f"{evaluate(model, held_out):.2%} of {len(held_out):,} pictures of "
        f"{held_out.provenance['name']}, "
        f"{split}"
    )


REFUSALS = (
    *(ValueError, TypeError, LookupError, OSError, ImportError),
    *(TrainingDivergedError, BatchTooLargeError),
)


def main() -> None:
    """Run the command; what the library refuses is one sentence, not a traceback."""
    try:
        app()
    except REFUSALS as e:
        message = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
        typer.echo(f"vitbook: {message}", err=True)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
