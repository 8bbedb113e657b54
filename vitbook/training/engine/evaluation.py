"""How often a model is right."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from vitbook.colors import recoloring
from vitbook.datasets import Dataset, normalize
from vitbook.datasets.dataset import first_difference
from vitbook.model_utilities import evaluating, logits_in
from vitbook.training.engine.processes import processes


class NotFiniteError(ValueError):
    """Answers with NaN or infinity, which have no largest."""


@torch.no_grad()
def evaluate(model: nn.Module, dataset: Dataset, batch_size: int = 256) -> float:
    """Share of the images whose largest logit is the right one (top-1, 0 to 1).

    With several processes each looks at its own images, every one of them once.

    Raises:
        ValueError: no images, or fewer outputs than classes.
        NotFiniteError: logits with NaN or infinity.

    Example:
        >>> import vitbook
        >>> from vitbook.datasets import load
        >>> from vitbook.training import evaluate
        >>> model = vitbook.load_checkpoint("digits-vit_micro_patch2_8-digits-seed0").model
        >>> evaluate(model, load("digits", "test")) > 0.9
        True
    """
    if not len(dataset):
        raise ValueError(f"{dataset.provenance.get('name', 'the data')} has no images to score on")
    here = processes()
    images = dataset.images[here.rank :: here.count]
    labels = dataset.labels[here.rank :: here.count]
    logits = predict(model, images, batch_size)
    check_outputs(logits, dataset)
    right = (logits.argmax(dim=1) == labels.to(logits.device)).sum()
    return here.sum(right).item() / len(dataset)


@torch.no_grad()
def predict(
    model: nn.Module, images: UInt8[Tensor, "n channels height width"], batch_size: int = 256
) -> Float[Tensor, "n classes"]:
    """Logits of every image, on the model's device and in its precision.

    The images are bytes and are normalised here, as the model says that it takes them
    (:func:`vitbook.colors.colors_of`), else to between -1 and 1. The model runs in evaluation mode,
    and each of its parts is left in the mode in which it came.

    Raises:
        ValueError: no logits for each image, "n classes", in what the model answers
            (:func:`vitbook.model_utilities.logits_in`).
        NotFiniteError: logits with NaN or infinity.
    """
    logits = answers(model, images, batch_size, lambda found: logits_in(found, model))
    if logits.ndim != 2:
        raise ValueError(
            f"{type(model).__name__} gave {tuple(logits.shape)}: expected (images, classes)"
        )
    if not logits.isfinite().all():
        wrong = int((~logits.isfinite().reshape(len(logits), -1).all(dim=1)).sum())
        raise NotFiniteError(
            f"{type(model).__name__} answers {wrong:,} of {len(images):,} images with NaN or "
            "infinity: expected finite logits; look for it in its weights, or take float32"
        )
    return logits


@torch.no_grad()
def answers(
    model: nn.Module,
    images: UInt8[Tensor, "n channels height width"],
    batch_size: int = 256,
    read: Callable[[Any], Tensor] = lambda found: found,
) -> Tensor:
    """As :func:`predict`, whatever the model says; ``read`` takes a tensor out of it."""
    batches = images.split(batch_size)
    with evaluating(model):
        return torch.cat([read(model(as_pixels(batch, model))) for batch in batches])


def as_pixels(images: UInt8[Tensor, "n ..."], model: nn.Module) -> Float[Tensor, "n ..."]:
    """Bytes normalised in a model's own colours, on the device of a model and in its precision."""
    weights = list(model.parameters())
    kinds = [weight.dtype for weight in weights if weight.is_floating_point()]
    images = normalize(images.to(weights[0].device)).to(kinds[0] if kinds else torch.float32)
    return recoloring(model)(images)


def check_same_classes(test: Dataset, train: Dataset) -> None:
    """Refuse held-out data whose labels mean something else than those of training.

    Raises:
        ValueError: other classes, or the same in another order; names the first difference.
    """
    if difference := first_difference(train.class_names, test.class_names):
        raise ValueError(
            f"training data of {train.num_classes} classes and held-out data of "
            f"{test.num_classes}: {difference}; expected the same classes in the same order"
        )


def check_outputs(logits: Tensor, dataset: Dataset) -> None:
    if logits.shape[1] < dataset.num_classes:
        raise ValueError(
            f"the model has {logits.shape[1]} outputs, {dataset.provenance['name']} has "
            f"{dataset.num_classes} classes: create_model(..., num_classes={dataset.num_classes})"
        )
