"""Each layer's attention folded as it runs, some rows at a time."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.analysis.capture.calls import AttentionCall
from vitbook.analysis.capture.layout import of_layer
from vitbook.analysis.capture.record import capture_attention, record_attention
from vitbook.analysis.capture.running import batches, encoder_of, takes_images
from vitbook.model_utilities import evaluating

# Weights made at once: one image's layer of a ViT-B/16, so that they stay near the processor.
AT_ONCE = 12 * 197 * 197
# A GPU wants more at a time: 256 MB of them.
AT_ONCE_ON_GPU = 2**26


def fold_attention(
    model: nn.Module, images: Tensor, batch_size: int, fold: Callable[[AttentionCall], Any]
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

        def keep(call: AttentionCall, layers: dict[str, Any] = layers) -> None:
            with of_layer(where + call.path):
                layers[call.path] = fold(call)

        with torch.no_grad(), evaluating(model), record_attention(part, keep):
            model(batch)
        yield layers


@takes_images()
@torch.no_grad()
def by_layer(
    model: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    fold: Callable[[Tensor], Tensor],
) -> Float[Tensor, "layers ..."]:
    """What ``fold`` makes of each layer's attention, without gradients and in evaluation mode.

    Args:
        images: normalised as the model takes them; all at once.
        fold: takes "batch heads queries keys"; gives the same shape in every layer.

    Example:
        >>> import torch, vitbook
        >>> from vitbook.analysis import by_layer
        >>> model = vitbook.create_model("vit_micro_patch2_8")
        >>> tuple(by_layer(model, torch.rand(2, 1, 8, 8), lambda maps: maps.amax((0, 2, 3))).shape)
        (4, 4)
    """
    with evaluating(model), capture_attention(model, reduce=fold) as found:
        model(images)
    return torch.stack(list(found.values()))


def pieces(call: AttentionCall, first: int = 0) -> Iterator[tuple[slice, slice]]:
    """Images and queries (from ``first`` on), about :data:`AT_ONCE` weights at a time.

    So memory grows with the tokens and not with their square, and what was made is read again
    while it is near the processor.
    """
    batch, heads, queries, keys = call.shape
    most = AT_ONCE if call.v.device.type == "cpu" else AT_ONCE_ON_GPU
    images = max(1, most // (heads * queries * keys))
    rows = max(1, most // (heads * keys))
    for image in range(0, batch, images):
        for row in range(first, queries, rows):
            yield slice(image, min(image + images, batch)), slice(row, min(row + rows, queries))
