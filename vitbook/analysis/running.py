"""A model run for a look: in evaluation mode, images a batch at a time, and left as it was."""

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.errors import check_count


def check_images(images: Tensor) -> None:
    """Refuse what no model can be probed with.

    Raises:
        TypeError: images that are whole numbers.
        ValueError: no images, or NaN or infinity in them.
    """
    if not images.is_floating_point():
        raise TypeError(
            f"images are {str(images.dtype).removeprefix('torch.')}: expected floating point, "
            "normalised as the model takes them"
        )
    if not len(images):
        raise ValueError("no images came: expected at least one")
    if not images.isfinite().all():
        raise ValueError("images hold NaN or infinity: expected finite numbers")


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
    return (as_model_takes(model, batch) for batch in images.split(batch_size))


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
    """A model's answer; Hugging Face's models wrap theirs."""

    def logits(images: Tensor) -> Tensor:
        out = model(images)
        out = getattr(out, "logits", out)
        if not isinstance(out, Tensor) or out.ndim != 2:
            what = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise ValueError(f"{type(model).__name__} gave {what}: expected (batch, classes)")
        return out

    return logits
