"""Images through a model, a batch at a time, and each layer's attention folded as it runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from vitbook.analysis.adapters import Seen
from vitbook.analysis.capture import watched

# Weights made at once: one image's layer of a ViT-B/16, so that they stay near the processor.
AT_ONCE = 12 * 197 * 197
# A GPU wants more at a time: 256 MB of them.
AT_ONCE_ON_GPU = 2**26


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


def fold_attention(
    model: nn.Module, images: Tensor, batch_size: int, fold: Callable[[Seen], Any]
) -> Iterator[dict[str, Any]]:
    """What ``fold`` makes of each layer, for one batch of images after the other.

    Without gradients and in evaluation mode.

    Yields:
        Path of the attention module -> what was made of it, in the order in which they ran.

    Raises:
        ValueError: what ``fold`` refuses, with the layer's name.
    """
    part, where = encoder_of(model)
    for batch in batches(model, images, batch_size):
        layers: dict[str, Any] = {}

        def keep(path: str, seen: Seen, layers: dict[str, Any] = layers) -> None:
            try:
                layers[path] = fold(seen)
            except ValueError as error:
                raise ValueError(f"{where}{path}: {error}") from error

        with torch.no_grad(), evaluating(model), watched(part, keep):
            model(batch)
        yield layers


def pieces(seen: Seen, first: int = 0) -> Iterator[tuple[slice, slice]]:
    """Images and queries (from ``first`` on), about :data:`AT_ONCE` weights at a time.

    So memory grows with the tokens and not with their square, and what was made is read again
    while it is near the processor.
    """
    batch, heads, queries, keys = seen.shape
    most = AT_ONCE if seen.output.device.type == "cpu" else AT_ONCE_ON_GPU
    images = max(1, most // (heads * queries * keys))
    rows = max(1, most // (heads * keys))
    for image in range(0, batch, images):
        for row in range(first, queries, rows):
            yield slice(image, min(image + images, batch)), slice(row, min(row + rows, queries))
