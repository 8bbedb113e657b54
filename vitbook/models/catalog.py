"""Every model by name."""

import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module

import torch
from torch import nn

from vitbook.errors import UnknownNameError, is_whole_number
from vitbook.layers.heads import POOLS as POOLS
from vitbook.layers.heads import (
    ClassAndMeanHead,
    ClassToken,
    ClassTokenHead,
    MeanPoolHead,
    NormedMeanHead,
    make_head,
)
from vitbook.layers.shapes import Size
from vitbook.models import papers
from vitbook.models.papers.igpt import is_causal
from vitbook.models.papers.vit import VisionTransformer


@dataclass(frozen=True)
class ModelSpec:
    """What it takes to build a model again: all that a checkpoint must say beside its weights."""

    name: str
    image_size: int | tuple[int, int]
    num_classes: int
    channels: int
    pool: str = ""


def _of_papers() -> Iterator[tuple[str, tuple[Callable[..., nn.Module], dict]]]:
    for file in pkgutil.iter_modules(papers.__path__):
        models = import_module(f"{papers.__name__}.{file.name}").MODELS
        for factory, table in models.items():
            for name, settings in table.items():
                yield name, (factory, settings)


# name -> (factory, its settings): whatever the files of `papers` have in their `MODELS`.
CATALOG = dict(_of_papers())


def list_models() -> tuple[str, ...]:
    """Names that :func:`create_model` takes, in the catalogue's order.

    Example:
        >>> import vitbook
        >>> [name for name in vitbook.list_models() if name.startswith("deit_tiny")]
        ['deit_tiny_distilled_patch16_224', 'deit_tiny_distilled_patch4_32']
    """
    return tuple(CATALOG)


def default_image_size(name: str) -> int:
    """Pixels of the image's side that a model is named for.

    Raises:
        UnknownNameError: no such model; names the nearest.
    """
    if name not in CATALOG:
        raise UnknownNameError("model", name, CATALOG)
    return CATALOG[name][1]["image_size"]


def create_model(
    name: str,
    *,
    image_size: Size | None = None,
    num_classes: int | None = None,
    channels: int | None = None,
    pool: str = "",
) -> nn.Module:
    """Build a model with fresh weights; what is not given is as the name says.

    The model remembers how it was asked for in ``model.spec``.

    Args:
        name: one of :func:`list_models`.
        image_size: in pixels, one number or (height, width); the patch must divide it.
        num_classes: length of the logits.
        channels: of the image.
        pool: what the head of a Vision Transformer reads: "class", "mean" or "class_and_mean", see
            :func:`vitbook.layers.make_head`; by default as its paper has it.

    Raises:
        UnknownNameError: no such model; names the nearest.
        ValueError: a size that the patch does not divide, another number that is not whole or is
            below 1, a pool for a model whose head is not one linear layer on tokens, or one that
            reads the class token of a causal model.

    Example:
        >>> import torch
        >>> import vitbook
        >>> model = vitbook.create_model("vit_micro_patch2_8", num_classes=3)
        >>> model.grid_size, model.num_prefix_tokens
        ((4, 4), 1)
        >>> tuple(model(torch.zeros(2, 1, 8, 8)).shape)
        (2, 3)
    """
    if name not in CATALOG:
        raise UnknownNameError("model", name, CATALOG)
    factory, settings = CATALOG[name]
    asked = dict(image_size=image_size, num_classes=num_classes, channels=channels)
    settings = {"channels": 3} | settings | {k: v for k, v in asked.items() if v is not None}
    for count in ("num_classes", "channels"):
        if not is_whole_number(settings[count]):
            raise ValueError(f"{count} {settings[count]!r}: expected a whole number")
    if settings["channels"] < 1:
        raise ValueError(f"{settings['channels']} channels: expected at least 1")
    model = factory(**settings)
    if pool:
        model.head = _pooled_head(name, model, pool, settings["num_classes"])
    size = settings["image_size"]
    model.spec = ModelSpec(
        name,
        int(size) if is_whole_number(size) else tuple(map(int, size)),
        int(settings["num_classes"]),  # numpy's are no JSON
        int(settings["channels"]),
        pool,
    )
    return model


def create_again(spec: ModelSpec) -> nn.Module:
    """The model that a spec tells of, with fresh weights.

    Of 0 classes, it gives the class token; without one, what its head would classify.

    Raises:
        UnknownNameError, ValueError: as :func:`create_model`.
    """
    model = create_model(
        spec.name,
        image_size=spec.image_size,
        num_classes=spec.num_classes or 1,
        channels=spec.channels,
        pool=spec.pool,
    )
    if not spec.num_classes:
        if model.num_prefix_tokens:
            model.head = ClassToken()
        else:
            model.head.classifier = nn.Identity()
        model.spec = spec
    return model


def fresh_twin(model: nn.Module) -> nn.Module:
    """The same model of the catalogue with random weights, seed 0, in evaluation mode."""
    torch.manual_seed(0)
    return create_again(model.spec).eval()


def _pooled_head(name: str, model: nn.Module, pool: str, num_classes: int) -> nn.Module:
    readers = ClassTokenHead | ClassAndMeanHead | MeanPoolHead
    if not isinstance(model, VisionTransformer) or not isinstance(model.head, readers):
        raise ValueError(
            f'{name} with pool "{pool}": expected a model that reads its answer from a class token '
            "or from the mean of the patches; leave pool out"
        )
    if is_causal(model) and pool != "mean":
        raise ValueError(
            f'{name} with pool "{pool}": its class token comes first and sees no pixel; use pool '
            '"mean", or leave it out'
        )
    if isinstance(model.head, NormedMeanHead) and pool == "mean":
        return model.head
    width = model.head.classifier.in_features // (1 + isinstance(model.head, ClassAndMeanHead))
    return make_head(pool, width, num_classes, model.num_prefix_tokens)
