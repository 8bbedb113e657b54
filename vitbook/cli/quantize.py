"""``vitbook quantize``: what fewer bits cost, and what they save."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import Tensor, nn
from tqdm import tqdm

from vitbook import datasets, runs
from vitbook.analysis import bootstrap_interval, round_activations
from vitbook.analysis.features.precision import PLACES, STEPS
from vitbook.cli.options import MOST_SEED, DataName, Device, stem
from vitbook.cli.tables import interval, print_table
from vitbook.datasets.resizing import resize
from vitbook.devices import choose_device, set_threads
from vitbook.measure import interleaved_seconds, ratio_of
from vitbook.models.weights.pretrained import PRETRAINED, load_pretrained
from vitbook.training import (
    SCHEMES,
    QuantizationError,
    load_checkpoint,
    quantize_model,
    stored_bytes,
)
from vitbook.training.engine.evaluation import as_pixels
from vitbook.training.transfer.linear_probe import accuracy_interval

# Of activations, where weights stay as they are.
BITS = (8, 6, 4)


@dataclass(frozen=True)
class Task:
    """A classifier and held-out images that it is asked about.

    Attributes:
        model: in evaluation mode, on its device.
        batches: images as the model takes them, resized as they are asked for.
        labels: of all of them.
    """

    model: nn.Module
    batches: Callable[[], "list[Tensor]"]
    labels: Tensor

    @torch.no_grad()
    def logits(self, model: nn.Module, label: str) -> Tensor:
        shown = tqdm(self.batches(), label, leave=False)
        return torch.cat([model(batch).cpu() for batch in shown])

    def compared(self, logits: Tensor, exact: Tensor) -> dict:
        """Accuracy with its interval, and what of the exact answers is lost, image by image."""
        right, was = (each.argmax(1) == self.labels for each in (logits, exact))
        lost = bootstrap_interval(right.double() - was.double())
        same = logits.argmax(1) == exact.argmax(1)
        return {
            "accuracy": _rounded(accuracy_interval(logits, self.labels)),
            "difference": _rounded([lost.mean, lost.low, lost.high]),
            "same_answers": round(same.double().mean().item(), 4),
        }


def quantize(
    dataset: DataName,
    model: Annotated[
        str,
        typer.Option(help="A name from `vitbook weights list` with a head, or a checkpoint."),
    ] = "vit_small_patch14_focus",
    num_images: Annotated[
        int | None, typer.Option("--images", min=2, help="Held-out images; by default all.")
    ] = None,
    image_size: Annotated[int | None, typer.Option(help="By default the head's.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Images at a time, when timed.")] = 8,
    rounds: Annotated[int, typer.Option(min=2, help="In which all models are timed in turn.")] = 20,
    activations: Annotated[
        bool, typer.Option(help="Round activations too, a place at a time: a second measurement.")
    ] = True,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="That draws the images.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder of the measurements.")] = Path("runs"),
    threads: Annotated[int | None, typer.Option(help="Of the CPU; by default all.")] = None,
    device: Device = None,
) -> None:
    """Quantize a classifier by every scheme: accuracy, megabytes and time beside float32's."""
    set_threads(threads)
    place = choose_device(device)
    subject = f"{stem(model)}-{dataset}"
    for kind in ("quantization", "rounded_activations"):
        runs.check_place(kind, subject, out)
    task, settings = _task(dataset, model, num_images, image_size, seed, place)
    exact = task.logits(task.model, "float32")
    rows, timed = _schemes(task, exact)
    first = task.batches()[0][:batch]
    with torch.no_grad():
        seconds = interleaved_seconds(
            [lambda each=each: each(first) for each in timed.values()], rounds, label="timing"
        )
    for name, own in zip(timed, seconds, strict=True):
        ratio = ratio_of(own, seconds[0])
        rows[name]["time"] = _rounded([ratio.median, ratio.low, ratio.high])
    common = settings | {"interval": "accuracy: Wilson, the rest: bootstrap; 95 %", "seed": seed}
    measured = runs.Measurement(
        kind="quantization",
        subject=subject,
        settings=common | {"time": f"over float32's, {rounds} rounds in turn, batch {len(first)}"},
        rows=list(rows.values()),
        **runs.made_on(place),
    )
    _print(measured.rows, ("scheme", "megabytes"), ("accuracy", "difference", "time"))
    # Before the activations, of which a model may have none to round.
    typer.echo(f"wrote {runs.record(measured, out)}")
    if activations:
        measured = runs.Measurement(
            kind="rounded_activations",
            subject=subject,
            settings=common | {"weights": "float32"},
            rows=_activations(task, exact),
            **runs.made_on(place),
        )
        _print(measured.rows, ("place", "steps", "bits"), ("accuracy", "difference"))
        typer.echo(f"wrote {runs.record(measured, out)}")


def _schemes(task: Task, exact: Tensor) -> tuple[dict[str, dict], dict[str, nn.Module]]:
    """A row for each scheme, and the models that ran; the first is the exact one."""
    rows, models = {}, {"float32": task.model}
    for name in ("float32", *SCHEMES):
        refused = ""
        if name != "float32":
            try:
                models[name] = quantize_model(task.model, name)
            except QuantizationError as error:
                refused = str(error)
        found = dict.fromkeys(("accuracy", "difference", "same_answers"))
        if not refused:
            logits = exact if name == "float32" else task.logits(models[name], name)
            found = task.compared(logits, exact)
        size = stored_bytes(task.model, None if name == "float32" else name)
        rows[name] = {"scheme": name, "megabytes": round(size / 1e6, 3)} | found
        rows[name] |= {"time": None, "refused": refused}
    return rows, models


def _activations(task: Task, exact: Tensor) -> list[dict]:
    rows = []
    for place in PLACES:
        for steps in STEPS:
            for bits in BITS:
                with round_activations(task.model, place, bits, steps):
                    logits = task.logits(task.model, f"{place}, {steps}, {bits} bits")
                row = {"place": place, "steps": steps, "bits": bits}
                rows.append(row | task.compared(logits, exact))
    return rows


def _task(
    dataset: str,
    name: str,
    num_images: int | None,
    image_size: int | None,
    seed: int,
    place: torch.device,
) -> tuple[Task, dict]:
    split = datasets.held_out_split(dataset)
    held_out = datasets.load(dataset, split)
    if num_images is not None and num_images > len(held_out):
        raise ValueError(f"{num_images} images of {dataset}, {split}: it has {len(held_out)}")
    if name in PRETRAINED:
        loaded = load_pretrained(name, head=dataset, image_size=image_size)
        model, normalize, weights = loaded.model, loaded.normalize, loaded.provenance["digest"]
    else:
        model = load_checkpoint(name, image_size=image_size).model
        normalize, weights = partial(as_pixels, model=model), name
    size = model.spec.image_size
    if not isinstance(size, int) or model.spec.channels != held_out.images.shape[1]:
        raise ValueError(
            f"{name} takes images of {size} pixels with {model.spec.channels} channels, "
            f"{dataset} has {held_out.images.shape[1]}: expected a model of square images for it"
        )
    if model.spec.num_classes != held_out.num_classes:
        raise ValueError(
            f"{name} has {model.spec.num_classes} classes, {dataset} {held_out.num_classes}: "
            "expected a model that learned this data set"
        )
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randperm(len(held_out), generator=generator)[:num_images]
    images, device_model = held_out.images[drawn], model.eval().to(place)

    def batches() -> list[Tensor]:
        return [normalize(resize(part, size)).to(place) for part in images.split(32)]

    settings = {
        "dataset": held_out.provenance["name"], "split": split, "images": len(drawn),
        "image_size": size, "weights_of": weights,
        "threads": torch.get_num_threads() if place.type == "cpu" else 0,
    }  # fmt: skip
    return Task(device_model, batches, held_out.labels[drawn]), settings


def _print(rows: list[dict], words: tuple[str, ...], numbers: tuple[str, ...]) -> None:
    print_table(
        [
            {word: str(row[word]) for word in words}
            | {name: "-" if row[name] is None else interval(row[name], ".3f") for name in numbers}
            for row in rows
        ]
    )


def _rounded(values: list[float]) -> list[float]:
    return [round(value, 4) for value in values]
