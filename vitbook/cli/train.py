"""``vitbook train``: one run, from data to a row of the ledger."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import nn

from vitbook.analysis import mean_attention_distance, mean_weight_on_prefix
from vitbook.cli.options import Device, Threads
from vitbook.datasets import Dataset
from vitbook.devices import set_threads
from vitbook.files import check_writable
from vitbook.runs import get_recipe
from vitbook.training import RunStoppedError, run
from vitbook.training.asked import DataName
from vitbook.training.engine.evaluation import as_pixels
from vitbook.training.faults import check_fault, plant


def train(
    model: Annotated[str, typer.Argument(help="A name from `vitbook models`.")],
    dataset: DataName = "digits",
    recipe: Annotated[str, typer.Option(help="A recipe by name.")] = "digits",
    epochs: Annotated[int | None, typer.Option(help="Instead of the recipe's.")] = None,
    batch: Annotated[int | None, typer.Option(help="Instead of the recipe's.")] = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any number of the recipe: --set drop_path=0.1; repeatable."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of weights, order and augmentation.")] = 0,
    share: Annotated[float, typer.Option(help="Of each class's training images, 0 to 1.")] = 1.0,
    share_seed: Annotated[int, typer.Option(help="Seed that draws the share.")] = 0,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            help="Weights to start from: a name of `vitbook weights list`, one of the book's own "
            "checkpoints, or a file.",
        ),
    ] = "",
    teacher: Annotated[
        str,
        typer.Option(
            help="Model whose answers it learns as well, by --set distillation=hard or soft: what "
            "--from takes, a model with fresh weights, fresh:resnet8_digits, or kept answers.",
        ),
    ] = "",
    out: Annotated[Path, typer.Option(help="Folder of the checkpoint and the result.")] = Path(
        "runs"
    ),
    half: Annotated[bool, typer.Option(help="Store the weights as float16.")] = False,
    probe_at: Annotated[
        str, typer.Option(help="Epochs after which to measure attention distance: 0,1,5,20.")
    ] = "",
    experiment: Annotated[
        str, typer.Option(help="Experiment of data/experiments.toml that it answers.")
    ] = "",
    threads: Threads = None,
    compile: Annotated[
        bool | None,
        typer.Option(help="Run through torch.compile; by default on a GPU in long runs."),
    ] = None,
    tensorboard: Annotated[
        Path | None, typer.Option(help="Folder for TensorBoard's event files.")
    ] = None,
    save_every: Annotated[
        float, typer.Option(help="Seconds between two writings of the unfinished run.")
    ] = 60.0,
    device: Device = None,
) -> None:
    """Train a model and keep its weights and its result.

    A run that was killed goes on from its last save when the same command is given again. On Ctrl-C
    or SIGTERM the command saves the unfinished run before it ends. On several GPUs of one machine:
    torchrun --nproc-per-node 2 -m vitbook train ...
    """
    set_threads(threads)
    check_writable(out)
    if not 0 <= save_every < float("inf"):
        raise ValueError(f"--save-every {save_every}: expected seconds, 0 or more")
    changes = {"epochs": epochs, "batch_size": batch}
    changes = {field: number for field, number in changes.items() if number is not None}
    chosen = get_recipe(recipe, **changes | dict(map(_change, change or [])))
    check_fault(chosen)
    with _asked_to_end() as stop:
        if stop is not None and stop():  # while this process was starting
            raise RunStoppedError("stopped before its first step: the same call begins it")
        result = run(
            model,
            dataset,
            chosen,
            seed=seed,
            share=share,
            share_seed=share_seed,
            start=start,
            teacher=teacher,
            experiment=experiment,
            folder=out,
            device=device,
            compile=compile,
            save_every_s=save_every,
            checkpoint_dtype=torch.float16 if half else None,
            probe=_look,
            probe_epochs=_epochs(probe_at),
            tensorboard=tensorboard,
            stop=stop,
            plant=plant,
        )
    if os.environ.get("RANK", "0") != "0":  # torchrun's other processes
        return
    typer.echo(
        f"{result.accuracy:.2%}{_of_what(result.recipe)} on the held-out part of {dataset} after "
        f"{result.wall_time_s:.0f} s on {result.device}; "
        f"wrote {out / result.name}.safetensors and .json"
    )


def _of_what(recipe: dict) -> str:
    return {
        "": "",
        "masked_patches": " of the colours of corrupted patches",
        "next_pixels": " of the next pixels",
    }.get(recipe["objective"], " of nearest other images with the same label")


@contextmanager
def _asked_to_end() -> Iterator[Callable[[], bool] | None]:
    """A function that says whether this process was asked to end, or who started it has ended.

    With several processes each would stop at a step of its own: these are killed as ever.
    """
    if "RANK" in os.environ:
        yield None
        return
    asked, parent = [], os.environ.get("VITBOOK_PARENT")
    before = {
        number: signal.signal(number, lambda *_: asked.append(True))
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield lambda: bool(asked) or parent not in (None, str(os.getppid()))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _change(words: str) -> tuple[str, object]:
    """ "drop_path=0.1" as a field and its value: a number, true, false, null, else a word."""
    field, sign, value = words.partition("=")
    if not sign:
        raise ValueError(f"--set {words}: expected a field and a value, such as drop_path=0.1")
    try:
        return field, json.loads(value)
    except json.JSONDecodeError:
        return field, value


def _look(model: nn.Module, held_out: Dataset) -> dict:
    """What the ledger keeps of a model that goes on learning."""
    images = as_pixels(held_out.images[:128], model)
    try:
        distance = mean_attention_distance(model, images)
    except RuntimeError as error:
        raise ValueError(f"--probe-at: {error}") from error
    return {
        "pictures": len(images),
        "attention_distance": _rounded(distance),
        "weight_on_prefix": _rounded(mean_weight_on_prefix(model, images)),
    }


def _epochs(words: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in words.split(",") if word)
    except ValueError:
        raise ValueError(f"--probe-at {words}: expected epochs such as 0,1,5,20") from None


def _rounded(numbers: torch.Tensor) -> list[list[float]]:
    return [[round(number, 4) for number in layer] for layer in numbers.tolist()]
