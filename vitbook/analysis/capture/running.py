"""A model run for a look: in evaluation mode, images a batch at a time, and left as it was."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import wraps
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.errors import check_count
from vitbook.model_utilities import logits_in


def takes_images(
    check: Callable[[Any], None] = lambda images: check_images(images), *, gradients: bool = False
) -> Callable[[Callable], Callable]:
    """The door of a probe: its images are looked at before anything else is.

    In ``torch.inference_mode`` the probe runs as in ``torch.no_grad``, and of tensors made there
    it gets copies: autograd takes neither that mode nor those tensors.

    Args:
        check: raises for images that the probe does not take.
        gradients: the probe asks for gradients: a model whose weights can have none is refused.
    """

    def decorate(probe: Callable) -> Callable:
        signature = inspect.signature(probe)
        optional = signature.parameters["images"].default is None

        @wraps(probe)
        def checked(*args: Any, **kwargs: Any) -> Any:
            given = signature.bind(*args, **kwargs)
            images = given.arguments.get("images")
            if images is not None or not optional:
                check(images)
            if gradients:
                check_differentiable(given.arguments["model"])
            with ExitStack() as modes:
                if torch.is_inference_mode_enabled():
                    modes.enter_context(torch.inference_mode(False))
                    modes.enter_context(torch.no_grad())
                for name, value in given.arguments.items():
                    if isinstance(value, Tensor) and value.is_inference():
                        given.arguments[name] = value.clone()
                return probe(*given.args, **given.kwargs)

        return checked

    return decorate


def check_differentiable(model: nn.Module) -> None:
    """Refuse a model of which autograd keeps no weights.

    Raises:
        ValueError: weights made inside ``torch.inference_mode``.
    """
    if any(weight.is_inference() for weight in model.parameters()):
        raise ValueError(
            f"the weights of {type(model).__name__} were made inside torch.inference_mode, without "
            "gradients for ever: expected a model that was made or loaded outside of that block"
        )


def check_batch(images: Any) -> None:
    """Refuse what is no batch of images that hold numbers.

    Raises:
        TypeError: no tensor.
        ValueError: other axes than four, no images, no pixels, or a tensor that is not dense.
    """
    if not isinstance(images, Tensor):
        raise TypeError(f"images came as {_what(images)}: expected {_AXES}; {_advice(images)}")
    if images.is_nested or images.layout != torch.strided:
        dense = "resize them to one size and torch.stack them"
        raise ValueError(
            f"images are a {'nested' if images.is_nested else images.layout} tensor: expected a "
            f"dense one, (images, channels, height, width); "
            f"{dense if images.is_nested else 'pass images.to_dense()'}"
        )
    if images.is_meta:
        raise ValueError(
            f"images are on the meta device, without numbers: expected {_AXES} that holds some; "
            "pass real images, as torch.rand_like(images, device='cpu')"
        )
    if images.ndim != 4:
        raise ValueError(
            f"images of shape {tuple(images.shape)}: expected {_AXES}; "
            + _AXES_ADVICE.get(images.ndim, "reshape them to it")
        )
    if not len(images):
        raise ValueError("no images came: expected at least one")
    if not images.numel():
        raise ValueError(f"images of shape {tuple(images.shape)} have no pixels: expected some")


def check_images(images: Any) -> None:
    """Refuse what no model can be probed with.

    Raises:
        TypeError: no tensor, or one of whole numbers.
        ValueError: what :func:`check_batch` refuses, or NaN or infinity.
    """
    check_batch(images)
    if not images.is_floating_point():
        raise TypeError(
            f"images are {str(images.dtype).removeprefix('torch.')}: expected floating point, "
            "normalised as the model takes them"
        )
    if not images.isfinite().all():
        raise ValueError("images hold NaN or infinity: expected finite numbers")


def check_pictures(images: Any) -> None:
    """Refuse what cannot be shown.

    Raises:
        TypeError: no tensor, or one that is not of bytes.
        ValueError: what :func:`check_batch` refuses.
    """
    check_batch(images)
    if images.dtype != torch.uint8:
        raise TypeError(
            f"images are {str(images.dtype).removeprefix('torch.')}: expected bytes, uint8 from 0 "
            "to 255, as they are before they are normalised"
        )


_AXES = "a tensor (images, channels, height, width)"
_AXES_ADVICE = {
    2: "for one of one channel pass images[None, None]",
    3: "for one image pass images[None], for several of one channel images[:, None]",
    5: "for clips or crops pass images.flatten(0, 1)",
}


def _what(images: Any) -> str:
    if isinstance(images, np.ndarray):
        return f"a numpy array of shape {images.shape}"
    if isinstance(images, list | tuple):
        kinds = sorted({type(each).__name__ for each in images})
        return f"a {type(images).__name__} of {len(images)} ({', '.join(kinds) or 'empty'})"
    return type(images).__name__


def _advice(images: Any) -> str:
    if isinstance(images, np.ndarray):
        return "pass torch.from_numpy(images)"
    if isinstance(images, Mapping) and images:
        key = "pixel_values" if "pixel_values" in images else next(iter(images))
        return f"pass images[{key!r}]"
    if isinstance(images, list | tuple) and all(isinstance(each, Tensor) for each in images):
        return "pass torch.stack(images)"
    return (
        "make a tensor of each picture (torchvision.transforms.functional.to_tensor), normalise it "
        "as the model takes it and torch.stack them"
    )


def check_targets(targets: Tensor, images: Tensor) -> None:
    """Refuse classes that are not one whole number for each image.

    Raises:
        TypeError: no whole numbers, or not in a row.
        ValueError: more or fewer of them than images.
    """
    told = isinstance(targets, Tensor)
    if not told or targets.dtype not in (torch.int64, torch.int32) or targets.ndim != 1:
        kind = f"{targets.dtype} of {tuple(targets.shape)}" if told else type(targets).__name__
        raise TypeError(
            f"targets are {kind}: expected whole numbers in a row, as torch.tensor([3, 7])"
        )
    if len(targets) != len(images):
        raise ValueError(
            f"{len(targets)} targets for {len(images)} images: expected one class for each"
        )


def as_model_takes(model: nn.Module, images: Tensor) -> Tensor:
    """Images on the device of a model and in its precision."""
    like = next((p for p in model.parameters() if p.is_floating_point()), images)
    return images.to(like.device, like.dtype)


def batches(model: nn.Module, images: Tensor, batch_size: int) -> Iterator[Tensor]:
    """The images on the model's device and in its dtype, some at a time.

    Raises:
        TypeError: images that are not floating point.
        ValueError: no images, NaN or infinity in them, or a batch of no size.
    """
    check_images(images)
    check_count("batch_size", batch_size)
    return (as_model_takes(model, batch) for batch in images.split(int(batch_size)))


def encoder_of(model: nn.Module) -> tuple[nn.Module, str]:
    """The part whose tokens are patches, and its path; of a foreign model, or none, the whole.

    A tokenizer of ours may attend too (T2T-ViT), between tokens that are no patches yet.
    """
    for path, module in model.named_modules():
        ours = any(kind.__module__.startswith("vitbook.models.") for kind in type(module).__mro__)
        if ours and hasattr(module, "encoder"):
            path = path.removeprefix("_orig_mod").removeprefix(".")
            return module.encoder, f"{path}.encoder.".removeprefix(".")
    return model, ""


def logits_of(model: nn.Module) -> Callable[[Tensor], Float[Tensor, "batch classes"]]:
    """A model's answer, without what it is wrapped in (:func:`.model_utilities.logits_in`)."""

    def logits(images: Tensor) -> Tensor:
        out = logits_in(model(images), model)
        if out.ndim != 2:
            raise ValueError(
                f"{type(model).__name__} gave {tuple(out.shape)}: expected (batch, classes)"
            )
        return out

    return logits
