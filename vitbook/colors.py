"""The one place that knows how a model wants its colours: by which mean and deviation."""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.model_utilities import unwrapped


@dataclass(frozen=True)
class Colors:
    """A channel, between 0 and 1, less its ``mean``, over its ``std``; one number is for all."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def black(self, channels: int) -> Float[Tensor, "channels"]:
        return (-torch.tensor(self.mean) / torch.tensor(self.std)).expand(channels)


OURS = Colors((0.5,), (0.5,))  # images between -1 and 1
LIBRARIES = ("torchvision", "transformers")  # they keep it beside the model


def colors_of(model: nn.Module) -> Colors | None:
    """What a model says of its colours, or the model inside a wrapper; None if nobody says.

    timm's models and those of :func:`vitbook.load_pretrained` say it (``pretrained_cfg``).
    torchvision's and Hugging Face's do not: there it stands beside the weights, in their transforms
    or their image processor. A module that normalises by itself says what it takes by a
    ``pretrained_cfg`` of its own. torchvision's ``Normalize`` in front takes colours between 0
    and 1.

    Raises:
        ValueError: models inside say different things, or a mean and no deviation that fits it.
    """
    said = set(_said(unwrapped(model)))
    if len(said) > 1:
        raise ValueError(
            f"the models inside {type(model).__name__} are for colours of different mean and "
            f"deviation, {', '.join(sorted(map(str, said)))}: give the parts one by one"
        )
    return said.pop() if said else None


def say_colors(model: nn.Module, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
    """Let a model say by which mean and deviation it takes its images, as timm's models do."""
    model.pretrained_cfg = {"mean": tuple(mean), "std": tuple(std)}


def _said(model: nn.Module) -> Iterator[Colors]:
    for name in ("pretrained_cfg", "default_cfg"):
        config = getattr(model, name, None)
        if isinstance(config, Mapping) and config.get("mean") and config.get("std"):
            mean, std = (tuple(map(float, config[key])) for key in ("mean", "std"))
            if len(mean) != len(std) or not all(each > 0 for each in std):
                raise ValueError(
                    f"{type(model).__name__} says a mean of {mean} and a deviation of {std}: "
                    "expected as many, the deviation above 0"
                )
            if set(mean) == {0.5} == set(std):
                mean, std = OURS.mean, OURS.std
            yield Colors(mean, std)
            return
    if type(model).__name__ == "Normalize" and hasattr(model, "mean") and hasattr(model, "std"):
        yield Colors((0.0,), (1.0,))
        return
    parts = list(model.children())
    if isinstance(model, nn.Sequential):  # what comes first sees the images
        parts = [part for part in parts if not isinstance(part, nn.Identity)][:1]
    for part in parts:
        yield from _said(unwrapped(part))


def recoloring(
    model: nn.Module,
) -> Callable[[Float[Tensor, "*batch channels h w"]], Float[Tensor, "*batch channels h w"]]:
    """From images between -1 and 1, as the book's models take them, to the colours of ``model``.

    A model that says nothing takes them as they are; of a library's it is logged.

    Raises:
        ValueError: it says so for another number of channels.
    """
    colors = colors_of(model)
    if colors is None:
        warn_of_silence(model)
    if colors in (None, OURS):
        return lambda images: images

    def recolored(images: Tensor) -> Tensor:
        check_channels(colors, images.shape[-3], model)
        mean, std = (images.new_tensor(each)[:, None, None] for each in (colors.mean, colors.std))
        return ((images + 1) / 2 - mean) / std

    return recolored


def warn_of_silence(model: nn.Module) -> None:
    """Log that the book's colours are taken for a model of a library that has others as a rule."""
    for part in model.modules():
        library = type(part).__module__.partition(".")[0]
        if library in LIBRARIES:
            logging.getLogger(__name__).warning(
                "%s, of %s, does not say by which mean and deviation it takes colours: images "
                "between -1 and 1 are taken. vitbook.colors.say_colors(model, mean, std) tells it",
                type(part).__name__,
                library,
            )
            return


def check_channels(colors: Colors, channels: int, model: nn.Module) -> None:
    if len(colors.mean) not in (1, channels):
        raise ValueError(
            f"{type(model).__name__} says how {len(colors.mean)} channels are normalised, and the "
            f"images have {channels}: give images of {len(colors.mean)} channels"
        )
