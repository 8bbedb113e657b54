"""What turns images into features: a frozen body, and its two controls."""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from vitbook import datasets
from vitbook.blocks import LAST, find_layer
from vitbook.datasets.resizing import resize
from vitbook.extras import from_extra
from vitbook.model_utilities import weights_digest
from vitbook.models.catalog import fresh_twin
from vitbook.models.weights.formats import ENDINGS
from vitbook.models.weights.pretrained import PRETRAINED, check_in_catalogue, load_pretrained
from vitbook.training.engine.evaluation import as_pixels
from vitbook.training.faults import load_checkpoint
from vitbook.training.transfer.frozen_features import frozen_features

with from_extra("train"):
    from tqdm import tqdm

# Of the pixels that the simplest control reads, a side.
RAW_SIZE = 32
# As a row of the ledger says it.
READ = "class token, if there is one, beside the mean of the patch tokens, after the last norm"
OF_BLOCK = (
    "class token, if there is one, beside the mean of the patch tokens, after {}, each token "
    "brought to mean 0 and variance 1"
)
EACH_PATCH = "patch tokens side by side, in the order of the grid, after the last norm"
CONTROLS = {"fresh": "seed 0", "raw": f"{RAW_SIZE} x {RAW_SIZE} pixels"}


def frozen_body(
    name: str, image_size: int | None
) -> tuple[nn.Module, Callable[[Tensor], Tensor], dict[str, str]]:
    """A model that has learned, what it takes images through, and what a row says of it.

    Args:
        name: of pretrained weights, or a checkpoint by name or file.
        image_size: in pixels; by default the model's.
    """
    if name not in PRETRAINED:
        try:
            own = load_checkpoint(name, image_size=image_size)
        except FileNotFoundError:
            if name.endswith(ENDINGS):
                raise
        else:
            learned = own.provenance.get("dataset", "what it does not say")
            about = {"weights": weights_digest(own.model), "learned_from": learned}
            return own.model, partial(as_pixels, model=own.model), about
    check_in_catalogue(name)
    loaded = load_pretrained(name, image_size=image_size)
    about = {"weights": loaded.provenance["digest"], "learned_from": loaded.provenance["learned"]}
    return loaded.model, loaded.normalize, about


def checked_size(
    name: str, model: nn.Module, images: datasets.Dataset, needs_class_token: bool = False
) -> int:
    """Side of the square images that a model of the catalogue takes.

    Raises:
        ValueError: images of another number of channels, a class token that is not there, or for
            images that are not square.
    """
    channels, given = model.spec.channels, images.images.shape[1]
    if given != channels:
        raise ValueError(
            f"{images.provenance['name']} has images of {given} channels, {name} takes {channels}: "
            "choose another data set"
        )
    if needs_class_token and not model.num_prefix_tokens:
        raise ValueError(f"{name} has no class token: expected a Vision Transformer that has one")
    return square_side(name, model.spec.image_size)


def square_side(name: str, size: int | tuple[int, int]) -> int:
    """Of the square images that a model takes; refuses one that takes others."""
    height, width = (size, size) if isinstance(size, int) else size
    if height != width:
        raise ValueError(f"{name} takes images of {height}x{width}: expected a square")
    return height


def layer_read(model: nn.Module, layer: str) -> tuple[str, str]:
    """Path of a layer, or "last"; and what a row says of the features that are read from it.

    Args:
        layer: "last", a path, or the number of a block in digits.

    Raises:
        As :func:`vitbook.blocks.find_layer`.
    """
    if layer == LAST:
        return LAST, READ
    path = find_layer(model, int(layer) if layer.removeprefix("-").isdecimal() else layer)
    return path, OF_BLOCK.format(path)


def kept_features(
    model: nn.Module,
    normalize: Callable[[Tensor], Tensor],
    size: int,
    folder: Path,
    name: str,
    each_patch: bool = False,
    layer: str | int | None = LAST,
) -> Callable[[Tensor], Tensor]:
    """What gives the frozen features of images, with a bar that has this name.

    Args:
        model: where it shall run.
        normalize: uint8 images to what it takes.
        size: of them, in pixels.
        folder: in whose ``features`` those are that were computed before, and will be.
        each_patch: side by side, instead of the class token beside the mean.
        layer: as in :func:`.frozen_features`.
    """
    kept = folder / "features"

    def features(images: Tensor) -> Tensor:
        with tqdm(total=len(images), desc=name, unit="image") as bar:
            chunks = []
            for chunk in frozen_features(
                model, normalize, images, size, kept, each_patch=each_patch, layer=layer
            ):
                chunks.append(chunk)
                bar.update(len(chunk))
        return torch.cat(chunks)

    return features


def frozen_readers(
    model: nn.Module,
    normalize: Callable[[Tensor], Tensor],
    size: int,
    place: torch.device,
    folder: Path,
    each_patch: bool = False,
    layer: str | int | None = LAST,
) -> dict[str, Callable[[Tensor], Tensor]]:
    """By name: the body with what it has learned, its twin of fresh weights, and pixels.

    Args:
        model: of the catalogue.
        normalize, size, folder: as in :func:`kept_features`.
        place: where it runs.
        each_patch: both bodies are read once more, patch by patch, and the first a third time with
            the patches of each image shuffled: as many numbers, and no place.
        layer: of both bodies; as in :func:`.frozen_features`.
    """
    bodies = {"pretrained": model.to(place), "fresh weights": fresh_twin(model).to(place)}
    readers = {
        name: kept_features(body, normalize, size, folder, name, layer=layer)
        for name, body in bodies.items()
    }
    readers["raw pixels"] = lambda images: resize(images, RAW_SIZE).flatten(1) / 255
    if each_patch:
        for name, body in bodies.items():
            title = f"{name}, each patch"
            readers[title] = kept_features(body, normalize, size, folder, title, True, layer)
        in_place, places = readers["pretrained, each patch"], math.prod(model.grid_size)
        readers["pretrained, shuffled patches"] = lambda images: shuffled(in_place(images), places)
    return readers


def shuffled(features: Float[Tensor, "n features"], places: int) -> Float[Tensor, "n features"]:
    """Patch tokens side by side, those of each image in an order of its own, by seed 0."""
    tokens = rearrange(features, "n (places width) -> n places width", places=places)
    generator = torch.Generator().manual_seed(0)
    order = torch.rand(tokens.shape[:2], generator=generator).argsort(dim=1)
    return tokens.take_along_dim(order[..., None], dim=1).flatten(1)
