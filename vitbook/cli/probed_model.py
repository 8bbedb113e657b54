"""What ``vitbook probe`` looks at: a model, and images as it takes them."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from vitbook import datasets
from vitbook.datasets.images import ANYONES, ImageError, as_shown, open_image, pixels, square
from vitbook.errors import UnknownNameError
from vitbook.extras import from_extra
from vitbook.models import create_model, list_models
from vitbook.models.catalog import fresh_twin
from vitbook.models.weights.efficientnet_lite import SIZES, efficientnet_lite
from vitbook.models.weights.formats import ENDINGS
from vitbook.models.weights.pretrained import PRETRAINED, load_pretrained
from vitbook.training.engine.evaluation import as_pixels
from vitbook.training.engine.memory import is_out_of_memory
from vitbook.training.faults import load_checkpoint
from vitbook.training.transfer.frozen_readers import square_side


@dataclass(frozen=True)
class ProbedModel:
    """A model that can be looked into.

    Attributes:
        name: as it was asked for.
        weights: where they come from, in words.
        model: in evaluation mode.
        fresh: its twin with random weights, to compare with; None where the weights are random.
        size: side of the square image that it takes, in pixels.
        channels: of the image.
        prepare: uint8 images to what the model takes.
        class_names: what each logit means; empty if nobody says it.
    """

    name: str
    weights: str
    model: nn.Module
    fresh: nn.Module | None
    size: int
    channels: int
    prepare: Callable[[Tensor], Tensor]
    class_names: tuple[str, ...] = ()


def load_probed_model(name: str, pretrained: bool = False, size: int | None = None) -> ProbedModel:
    """Pretrained weights of the Python index, a model of the catalogue, of timm (``timm:NAME``), or
    a checkpoint, by file or name.

    Args:
        pretrained: timm's weights, not random ones.
        size: of the images, in pixels, for random weights; by default what the name says.

    Raises:
        UnknownNameError: none of them has this name.
        ConnectionError: pretrained weights that cannot be fetched.
        ValueError: pretrained weights asked of anything but timm's, a model for images that are
            not square, another size for weights that have learned.
    """
    if size is not None and (pretrained or not (name in list_models() or name.startswith("timm:"))):
        raise ValueError(
            f"{name} at {size} px: another size is for random weights, of names from "
            "`vitbook models` or timm:NAME"
        )
    if name in PRETRAINED:
        loaded = load_pretrained(name)
        about, model = loaded.provenance, loaded.model
        weights = f"{about['source']} ({about['terms']}): {about['learned']}"
        if name in SIZES:
            return ProbedModel(
                name, weights, model, efficientnet_lite(name, None), SIZES[name], 3,
                loaded.normalize, loaded.class_names,
            )  # fmt: skip
        return _ours(name, weights, model, fresh_twin(model), loaded.normalize)
    if pretrained and not name.startswith("timm:"):
        raise ValueError(f"--pretrained with {name}: only timm's have such weights, timm:NAME")
    torch.manual_seed(0)
    if name in list_models():
        return _ours(name, "random, seed 0", create_model(name, image_size=size))
    if name.startswith("timm:"):
        return _timm(name.removeprefix("timm:"), pretrained, size)
    try:
        loaded = load_checkpoint(name)
    except FileNotFoundError:
        if name.endswith(ENDINGS):
            raise
        known = (*PRETRAINED, *list_models())
        raise UnknownNameError("model or checkpoint", name, known) from None
    about = loaded.provenance
    learned = f"learned from {about.get('dataset', 'what it does not say')}"
    if "seed" in about:
        learned += f", seed {about['seed']}"
    probed = _ours(name, learned, loaded.model, fresh_twin(loaded.model))
    return replace(probed, class_names=loaded.class_names)


def _ours(
    name: str,
    weights: str,
    model: nn.Module,
    fresh: nn.Module | None = None,
    prepare: Callable[[Tensor], Tensor] | None = None,
) -> ProbedModel:
    size = square_side(name, model.spec.image_size)
    prepare = prepare or partial(as_pixels, model=model)
    return ProbedModel(
        name, weights, model.eval(), fresh and fresh.eval(), size, model.spec.channels, prepare
    )


def _timm(name: str, pretrained: bool, size: int | None) -> ProbedModel:
    with from_extra("pretrained"):
        import timm
    if not timm.is_model(name):
        raise UnknownNameError("model of timm", name, timm.list_models())
    try:
        model = timm.create_model(name, pretrained=pretrained)
    except RuntimeError as error:
        if pretrained and "No pretrained weights" in str(error):
            raise ValueError(f"timm has no pretrained weights for {name}") from error
        raise
    except OSError as error:  # what the hub raises without internet is one
        raise ConnectionError(
            f"the weights of {name} could not be fetched: run it where the internet is, or "
            f"leave --pretrained out ({type(error).__name__})"
        ) from error
    fresh = timm.create_model(name) if pretrained else None
    config = timm.data.resolve_model_data_config(model)
    channels, height, width = config["input_size"]
    if size is not None:
        height = width = size
        _resize(model, f"timm:{name}", size, channels)
    mean, spread = (torch.tensor(config[key])[:, None, None] for key in ("mean", "std"))
    return ProbedModel(
        f"timm:{name}", "pretrained, from timm" if pretrained else "random, seed 0", model.eval(),
        fresh and fresh.eval(), square_side(name, (height, width)), channels,
        lambda images: (images / 255 - mean) / spread,
        _imagenet_names(model) if pretrained else (),
    )  # fmt: skip


def _imagenet_names(model: nn.Module) -> tuple[str, ...]:
    """What the logits of timm's pretrained model mean, if it learned a set of ImageNet."""
    from timm.data import ImageNetInfo, infer_imagenet_subset

    subset = infer_imagenet_subset(model)
    return tuple(ImageNetInfo(subset).label_descriptions()) if subset else ()


def _resize(model: nn.Module, name: str, size: int, channels: int) -> None:
    """Make a model of timm take images of another size; one of convolutions takes any."""
    patch = getattr(getattr(model, "patch_embed", None), "patch_size", 1)
    sides = (patch, patch) if isinstance(patch, int) else patch
    if any(size % side for side in sides):  # timm would leave the rest of the image out
        raise ValueError(f"{name} at {size} px: expected a multiple of its patches' {sides} px")
    try:
        if hasattr(model, "set_input_size"):
            model.set_input_size(img_size=size)
        with torch.no_grad():
            model.eval()(torch.zeros(1, channels, size, size))
    except (AssertionError, RuntimeError) as error:
        if is_out_of_memory(error):
            raise
        raise ValueError(f"{name} takes no images of {size} px: choose another size") from error


def read_images(
    path: Path | None, size: int, channels: int
) -> tuple[dict[str, Tensor], dict[str, str], dict[str, str]]:
    """The centre square of each image of a folder, or of one file, resized; and what was left.

    Args:
        path: a file, or a folder, read by name and not below; by default the nine photographs
            inside scikit-image and scikit-learn.
        size: of the square, in pixels.
        channels: 3, or 1 for grey.

    Returns:
        Name -> uint8 image, "channels height width"; name -> why it was skipped; and name -> its
        own pixels, of each that was enlarged.

    Raises:
        FileNotFoundError: no such path, or nothing in the folder.
        ImageError: not one image in it.
    """
    if path is None:
        photos = datasets.load("photos", "all", image_size=size)
        taken = dict(zip(photos.class_names, photos.images, strict=True))
        return {name: _grey(image, channels) for name, image in taken.items()}, {}, {}
    if not path.exists():
        raise FileNotFoundError(f"no file or folder {path}: give --images one with images")
    files = [path] if path.is_file() else sorted(file for file in path.iterdir() if file.is_file())
    if not files:
        raise FileNotFoundError(f"no files in {path}: expected images, {', '.join(ANYONES)}")
    taken, skipped, enlarged = {}, {}, {}
    for file in files:
        name = os.fsencode(file.name).decode("utf-8", "replace")  # as a page can show it
        try:
            given = as_shown(open_image(file.read_bytes(), ANYONES))
            shown = square(given, size)
        except ImageError as error:
            skipped[name] = str(error)
        except OSError as error:
            skipped[name] = f"not readable: {error.strerror or error}"
        else:
            taken[name] = _grey(torch.from_numpy(pixels(shown).copy()), channels)
            if min(given.size) < size:
                enlarged[name] = f"{given.width} x {given.height}"
    if not taken:
        told = "; ".join(f"{name}: {why}" for name, why in skipped.items())
        raise ImageError(f"not one image in {path}: {told}")
    return taken, skipped, enlarged


def _grey(image: Tensor, channels: int) -> Tensor:
    """Luma of ITU-R BT.601, as Pillow's, for a model of one channel."""
    if channels == image.shape[0]:
        return image
    weights = torch.tensor([0.299, 0.587, 0.114])[:, None, None]
    return (image * weights).sum(0, keepdim=True).round().to(torch.uint8)
