"""How many channels a layer uses, and how many it has."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.analysis.capture.outputs import check_layers, list_blocks, outputs_of
from vitbook.analysis.capture.running import takes_images
from vitbook.analysis.features.similarity import cka
from vitbook.devices import to_float64


@dataclass(frozen=True)
class Redundancy:
    """How far the channels and the layers of a model repeat each other: means over its layers.

    Attributes:
        channels: :func:`effective_channels` of a layer.
        share: these over all channels that the layer has; a low share is high redundancy.
        likeness: :func:`cka` of neighbouring layers; 1 where a layer describes the images as the
            one before it does. nan for a model of one layer.
    """

    channels: float
    share: float
    likeness: float


@takes_images()
def layer_redundancy(
    model: nn.Module,
    images: Float[Tensor, "images channels height width"],
    layers: Sequence[str] | None = None,
) -> Redundancy:
    """Measure :class:`Redundancy` of layers whose channels come last, as those of a Transformer do.

    The model runs in evaluation mode, once on all images and once more in batches.

    Args:
        model: any model.
        images: that it takes, 4 at least.
        layers: paths of modules, in their order; by default every block (:func:`list_blocks`).

    Raises:
        TypeError: images that are not floating point.
        ValueError: fewer than 4 images, NaN in them, or no layers.
        UnknownNameError: a path that leads to no module; names the nearest.
        RuntimeError: a layer that did not run.

    Example:
        >>> import torch, vitbook
        >>> from vitbook.analysis import layer_redundancy
        >>> model = vitbook.create_model("vit_micro_patch2_8")
        >>> found = layer_redundancy(model, torch.randn(8, 1, 8, 8))
        >>> 1 <= found.channels <= 64 and 0 < found.share <= 1
        True
    """
    chosen = list_blocks(model) if layers is None else tuple(layers)
    check_layers(model, chosen)
    alike = cka(model, model, images, chosen, chosen).diag(1)
    used = outputs_of(
        model, images, chosen, lambda path, out: (effective_channels(out), out.shape[-1])
    )
    counted = [used[layer] for layer in chosen]
    return Redundancy(
        channels=sum(some for some, _ in counted) / len(counted),
        share=sum(some / width for some, width in counted) / len(counted),
        likeness=alike.mean().item(),
    )


@torch.no_grad()
def effective_channels(outputs: Float[Tensor, "*lead channels"]) -> float:
    r"""How many channels of equal variance, independent of each other, would vary as these do.

    .. math:: \Big(\sum_i \lambda_i\Big)^2 \Big/ \sum_i \lambda_i^2

    The :math:`\lambda_i` are the eigenvalues of the channels' correlations (the participation
    ratio), so that a channel's unit does not matter: 1 where all channels say the same, their
    number where no two have anything in common. A channel that never changes is left out.

    Args:
        outputs: of one layer, channels last; every token of every image is one observation.

    Raises:
        ValueError: fewer than two observations, NaN or infinity, or no channel that changes.

    Example:
        >>> import torch
        >>> from vitbook.analysis import effective_channels
        >>> one = torch.arange(5.0)[:, None]
        >>> round(effective_channels(torch.cat([one, 2 * one, -one], dim=1)), 6)
        1.0
    """
    rows = rearrange(to_float64(outputs), "... channels -> (...) channels")
    rows = rows - rows[:1]  # what never changes is 0 to the bit
    if len(rows) < 2 or not rows.isfinite().all():
        raise ValueError(
            f"outputs of shape {tuple(outputs.shape)} with {len(rows)} observations: expected two "
            "or more, all of finite numbers; run the model on more images, or mend it"
        )
    reach = rows.abs().amax(0)
    if not reach.any():
        raise ValueError(
            f"{outputs.shape[-1]} channels that never change: expected one or more that do; run "
            "the model on different images"
        )
    rows = rows[:, reach > 0] / reach[reach > 0]  # before squares: of tiny numbers they are 0
    rows = rows - rows.mean(0)
    rows = rows / rows.square().mean(0).sqrt()
    correlations = rows.mT @ rows / len(rows)
    return (correlations.trace() ** 2 / correlations.square().sum()).item()
