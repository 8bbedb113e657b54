"""What turns images into features: a frozen body, and its two nulls."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from tqdm import tqdm

from vitbook import datasets
from vitbook.commands.probed_model import fresh_twin, square_side
from vitbook.datasets.resizing import resize
from vitbook.training.frozen_features import frozen_features

# Of the pixels that the simplest null reads, a side.
RAW_SIZE = 32
# As a row of the ledger says it.
READ = "class token beside the mean of the patch tokens, after the last norm"
NULLS = {"fresh": "seed 0", "raw": f"{RAW_SIZE} x {RAW_SIZE} pixels"}


def checked_size(name: str, model: nn.Module, images: datasets.Dataset) -> int:
    """Side of the square images that a model of the catalogue takes.

    Raises:
        ValueError: images of another number of channels, a model without a class token, or for
            images that are not square.
    """
    channels, given = model.spec.channels, images.images.shape[1]
    if given != channels:
        raise ValueError(
            f"{images.provenance['name']} has images of {given} channels, {name} takes {channels}: "
            "choose another data set"
        )
    if not model.num_prefix_tokens:
        raise ValueError(f"{name} has no class token: expected a Vision Transformer that has one")
    return square_side(name, model.spec.image_size)


def frozen_readers(
    model: nn.Module,
    normalize: Callable[[Tensor], Tensor],
    size: int,
    place: torch.device,
    kept: Path,
) -> dict[str, Callable[[Tensor], Tensor]]:
    """By name: the body with what it has learned, its twin of fresh weights, and pixels.

    Args:
        model: of the catalogue.
        normalize: uint8 images to what it takes.
        size: of them, in pixels.
        place: where it runs.
        kept: folder of features that were computed before, and will be.
    """

    def tokens_of(body: nn.Module, name: str) -> Callable[[Tensor], Tensor]:
        def features(images: Tensor) -> Tensor:
            with tqdm(total=len(images), desc=name, unit="image") as bar:
                chunks = []
                for chunk in frozen_features(body, normalize, images, size, kept):
                    chunks.append(chunk)
                    bar.update(len(chunk))
            return torch.cat(chunks)

        return features

    return {
        "pretrained": tokens_of(model.to(place), "pretrained"),
        "fresh weights": tokens_of(fresh_twin(model).to(place), "fresh weights"),
        "raw pixels": lambda images: resize(images, RAW_SIZE).flatten(1) / 255,
    }
