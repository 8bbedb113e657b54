"""A classifier and held-out images: what rounding costs is asked of it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from tqdm import tqdm

from vitbook import datasets
from vitbook.analysis import bootstrap_interval
from vitbook.datasets.resizing import resize
from vitbook.models.weights.pretrained import PRETRAINED, load_pretrained
from vitbook.training.engine.evaluation import as_pixels
from vitbook.training.faults import load_checkpoint
from vitbook.training.transfer.linear_probe import accuracy_interval


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
            "accuracy": rounded(accuracy_interval(logits, self.labels)),
            "difference": rounded([lost.mean, lost.low, lost.high]),
            "same_answers": round(same.double().mean().item(), 4),
        }


def task_of(
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


def rounded(values: list[float]) -> list[float]:
    return [round(value, 4) for value in values]
