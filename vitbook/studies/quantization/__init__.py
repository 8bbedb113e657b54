"""What the chapter on fewer bits measures."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Annotated

import torch
import typer
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from tqdm import tqdm

from vitbook import datasets
from vitbook.analysis import bootstrap_interval
from vitbook.analysis.capture.record import record_modules
from vitbook.analysis.capture.running import batches
from vitbook.datasets.resizing import resize
from vitbook.measure import interleaved_seconds, ratio_of
from vitbook.model_utilities import evaluating, weights_digest
from vitbook.models.weights.pretrained import PRETRAINED, load_pretrained
from vitbook.runs.measuring import Sheet, measurement
from vitbook.studies.quantization.activations import PLACES, STEPS, round_activations
from vitbook.studies.quantization.oscillation import count_oscillations
from vitbook.studies.quantization.schemes import (
    SCHEMES,
    QuantizationError,
    quantize_model,
    stored_bytes,
)
from vitbook.training.asked import DataName, ImageSize, Seed, SomeImages, stem
from vitbook.training.engine.evaluation import as_pixels
from vitbook.training.faults import load_checkpoint
from vitbook.training.transfer.linear_probe import accuracy_interval

__all__ = ["channel_ranges", "count_oscillations", "quantize", "quantize_model"]

# Of activations, where weights stay as they are.
BITS = (8, 6, 4)
SCHEME_COLUMNS = {"scheme": "{scheme}", "megabytes": "{megabytes}"} | {
    name: f"{{{name}:.3f}}" for name in ("accuracy", "difference", "time")
}
PLACE_COLUMNS = {name: f"{{{name}}}" for name in ("place", "steps", "bits")} | {
    name: f"{{{name}:.3f}}" for name in ("accuracy", "difference")
}


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


@measurement(quantization=SCHEME_COLUMNS, rounded_activations=PLACE_COLUMNS)
def quantize(
    sheet: Sheet,
    dataset: DataName,
    model: Annotated[
        str,
        typer.Option(help="A name from `vitbook weights list` with a head, or a checkpoint."),
    ] = "vit_small_patch14_focus",
    num_images: SomeImages = None,
    image_size: ImageSize = None,
    batch: Annotated[int, typer.Option(min=1, help="Images at a time, when timed.")] = 8,
    rounds: Annotated[int, typer.Option(min=2, help="In which all models are timed in turn.")] = 20,
    activations: Annotated[
        bool, typer.Option(help="Round activations too, a place at a time: a second measurement.")
    ] = True,
    seed: Seed = 0,
) -> None:
    """Quantize a classifier by every scheme: accuracy, megabytes and time beside float32's."""
    subject = f"{stem(model)}-{dataset}"
    sheet.expect(subject)
    task, settings = _task(dataset, model, num_images, image_size, seed, sheet.device)
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
    clock = {"time": f"over float32's, {rounds} rounds in turn, batch {len(first)}"}
    # Before the activations, of which a model may have none to round.
    sheet.write(subject, common | clock, list(rows.values()))
    if activations:
        rounded = _activations(sheet, task, exact)
        sheet.write(subject, common | {"weights": "float32"}, rounded, "rounded_activations")


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


def _activations(sheet: Sheet, task: Task, exact: Tensor) -> list[dict]:
    def compared(place: str, steps: str, bits: int) -> dict:
        with round_activations(task.model, place, bits, steps):
            logits = task.logits(task.model, f"{place}, {steps}, {bits} bits")
        return {"place": place, "steps": steps, "bits": bits} | task.compared(logits, exact)

    weights = weights_digest(task.model)
    return [
        sheet.once(f"{each} {weights}", compared, *each) for each in product(PLACES, STEPS, BITS)
    ]


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


def _rounded(values: list[float]) -> list[float]:
    return [round(value, 4) for value in values]


@torch.no_grad()
def channel_ranges(
    model: nn.Module,
    images: Float[Tensor, "images channels height width"],
    *,
    batch_size: int = 32,
) -> dict[str, list[Float[Tensor, "_width"]]]:
    """The largest absolute value of each channel, over images and tokens, where linear layers read.

    One step for a whole tensor must reach the largest channel; a median channel then has as many
    codes fewer as it is smaller. LayerNorms of Transformers have few channels that are far larger
    than the rest (Bondarenko, Nagel and Blankevoort 2021, section 3).

    Args:
        model: as in :func:`round_activations`.
        images: normalised as the model takes them.
        batch_size: images at a time.

    Returns:
        For "stream", "norm" and "gelu" a tensor for each layer that has one, in the order run.
    """
    largest: dict[str, dict[str, Tensor]] = {"stream": {}, "norm": {}, "gelu": {}}

    def keep(place: str, path: str, values: Tensor) -> None:
        now = values.detach().abs().flatten(0, -2).amax(dim=0).float().cpu()
        before = largest[place].get(path)
        largest[place][path] = now if before is None else torch.maximum(before, now)

    def watch(path: str, module: nn.Module) -> Iterator[RemovableHandle]:
        if isinstance(module, nn.LayerNorm):

            def look(_: nn.Module, args: tuple, output: Tensor) -> None:
                keep("stream", path, args[0])
                keep("norm", path, output)

            yield module.register_forward_hook(look)
        elif isinstance(module, nn.GELU):
            yield module.register_forward_hook(lambda _, args, output: keep("gelu", path, output))

    with evaluating(model), record_modules(model, watch):
        for batch in batches(model, images, batch_size):
            model(batch)
    return {place: list(found.values()) for place, found in largest.items()}
