"""A model run for a look: in evaluation mode, images a batch at a time."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """In evaluation mode inside the block; every part is left in the mode in which it came."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def batches(model: nn.Module, images: Tensor, batch_size: int) -> Iterator[Tensor]:
    """The images on the model's device and in its dtype, some at a time.

    Raises:
        TypeError: images that are not floating point.
        ValueError: no images.
    """
    if not images.is_floating_point():
        raise TypeError(
            f"images are {str(images.dtype).removeprefix('torch.')}: expected floating point, "
            "normalised as the model takes them"
        )
    if not len(images):
        raise ValueError("no images came: expected at least one")
    like = next((p for p in model.parameters() if p.is_floating_point()), images)
    for batch in images.split(batch_size):
        yield batch.to(like.device, like.dtype)


def encoder_of(model: nn.Module) -> tuple[nn.Module, str]:
    """The part whose tokens are patches, and its path.

    A tokenizer may attend too (T2T-ViT), between tokens that are no patches yet.
    """
    return (model.encoder, "encoder.") if hasattr(model, "tokenizer") else (model, "")
