"""Weights that have learned elsewhere, made ready for another task."""

import hashlib
from pathlib import Path

import torch
from torch import nn

from vitbook.colors import OURS, say_colors
from vitbook.errors import UnknownNameError
from vitbook.files import data_folder
from vitbook.models import create_model
from vitbook.models.weights.formats import ENDINGS
from vitbook.models.weights.pretrained import (
    PRETRAINED,
    Pretrained,
    check_in_catalogue,
    load_pretrained,
)
from vitbook.training.engine.checkpoints import load_checkpoint


class StartError(ValueError):
    """Weights from which the run cannot start."""


def start_from(
    start: str | Path,
    model_name: str,
    *,
    image_size: int,
    num_classes: int,
    channels: int,
    pool: str = "",
) -> nn.Module:
    """A model whose body has learned, with a head that answers nothing yet.

    ViT paper, section 3.2: the head is replaced by one whose weights are zero, so that every class
    is as likely as another, and the table of positions is resized to the grid of the new images.
    Weights that expect other means and deviations of the colours than
    :func:`vitbook.datasets.normalize` gives have these folded into their patch embedding.

    Args:
        start: a name of `vitbook weights list`, one of timm's, one of the book's own checkpoints,
            the file of a checkpoint, or a ``.npz`` of Google's.
        model_name: of the catalogue, which the weights must be of.
        image_size: in pixels.
        num_classes: of the new head.
        channels: of the new images.
        pool: what the new head reads; by default as the model has it.

    Raises:
        UnknownNameError: no such weights; names the nearest.
        StartError: a path without a file, weights of another model, of none of the catalogue, or
            for images of other channels.
        CheckpointError: the file is damaged or no checkpoint, or of a body with a fault.
        ValueError: an image size that the patch does not divide.

    Example:
        >>> import torch
        >>> from vitbook.training import start_from
        >>> start = "digits-vit_micro_patch2_8-digits-seed0"
        >>> model = start_from(
        ...     start, "vit_micro_patch2_8", image_size=12, num_classes=3, channels=1
        ... )
        >>> model(torch.zeros(1, 1, 12, 12))
        tensor([[0., 0., 0.]], grad_fn=<AddmmBackward0>)
    """
    check_in_catalogue(start, StartError)
    source = _load(start, image_size)
    learned = source.model if isinstance(source, Pretrained) else source
    spec = learned.spec
    if spec.name != model_name:
        raise StartError(
            f"{start} holds the weights of {spec.name}, not of {model_name}: train {spec.name}, or "
            "start from other weights"
        )
    if spec.channels != channels:
        raise StartError(
            f"{start} learned from images of {spec.channels} channels, these have {channels}: "
            "start from other weights"
        )
    fresh = create_model(
        model_name, image_size=image_size, num_classes=num_classes, channels=channels, pool=pool
    )
    for part in fresh.head.modules():
        if isinstance(part, nn.Linear):
            nn.init.zeros_(part.weight)
            nn.init.zeros_(part.bias)
    learned.head, learned.spec = fresh.head, fresh.spec
    if isinstance(source, Pretrained):
        fold_normalization(learned, source.mean, source.std)
        say_colors(learned, OURS.mean, OURS.std)
    return learned.train()


def check_weights(
    name: str | Path,
    purpose: str = "to start from",
    error: type[ValueError] = StartError,
) -> None:
    """Refuse weights that are not there, before data are loaded.

    Args:
        purpose: of the weights, in words.
        error: what is raised for a path.

    Raises:
        UnknownNameError: no such weights; names the nearest.
        ValueError: ``error``, a path without a file.
    """
    known = [*PRETRAINED, *_own()]
    if str(name) in known or Path(name).is_file():
        return
    if is_path(name):
        raise error(
            f"{name} is no file {purpose}: mend the path, or give a name of `vitbook weights "
            "list` or of one of the book's own checkpoints"
        )
    if not str(name).partition(".")[2]:  # a point is timm's way
        raise UnknownNameError(f"weights {purpose}", str(name), known)


def is_path(name: str | Path) -> bool:
    """Whether weights are asked for by a path and not by a name."""
    return "/" in str(name) or str(name).endswith(ENDINGS)


def is_checkpoint(name: str | Path) -> bool:
    """Whether weights are in a file of ours, and not among the pretrained ones."""
    return str(name) not in PRETRAINED and (str(name) in _own() or Path(name).is_file())


def start_name(start: str | Path) -> str:
    """What the ledger calls the weights: a file by its name and a digest of its bytes."""
    path = Path(start)
    if str(start) in PRETRAINED or not path.is_file():
        return str(start)
    with path.open("rb") as file:
        return f"{path.stem}@{hashlib.file_digest(file, 'sha256').hexdigest()[:8]}"


@torch.no_grad()
def fold_normalization(model: nn.Module, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
    r"""Let a model take images as :func:`vitbook.datasets.normalize` gives them, in place.

    A patch embedding is linear, so with :math:`x` between 0 and 1 and :math:`n = 2x - 1`

    .. math::
        E\,\frac{x - \mu}{\sigma} + b = \frac{E}{2\sigma}\, n + b + E\,\frac{1 - 2\mu}{2\sigma}

    Args:
        mean: of each channel, which the weights expect to be taken off.
        std: of each channel, to be divided by then.

    Raises:
        StartError: the model's tokenizer is no patch embedding: borders of zeros would change.
    """
    if set(mean) == set(std) == {0.5}:
        return
    projection = getattr(getattr(model, "tokenizer", None), "projection", None)
    if not isinstance(projection, nn.Conv2d) or any(projection.padding) or projection.bias is None:
        raise StartError(
            f"{type(model).__name__} expects colours with mean {mean}, which cannot be folded into "
            "its first layer: start from weights of a model with a patch embedding"
        )
    mean, std = (projection.weight.new_tensor(each)[:, None, None] for each in (mean, std))
    offset = (projection.weight * ((1 - 2 * mean) / (2 * std))).sum((1, 2, 3))
    projection.bias += offset
    projection.weight /= 2 * std


def _load(start: str | Path, image_size: int) -> Pretrained | nn.Module:
    check_weights(start)
    if is_checkpoint(start):
        return load_checkpoint(start, image_size=image_size).model
    return load_pretrained(str(start), image_size=image_size)


def _own() -> list[str]:
    return sorted(file.stem for file in (data_folder() / "checkpoints").glob("*.safetensors"))
