"""How far the channels and the layers of a model repeat each other, and the measurement of it."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from vitbook import datasets
from vitbook.analysis import cka, list_blocks
from vitbook.analysis.capture.outputs import outputs_of
from vitbook.devices import to_float64
from vitbook.runs.measuring import Sheet, measurement
from vitbook.training.asked import Checkpoints, OtherData, Split, rows_of_checkpoints
from vitbook.training.engine.evaluation import as_pixels


@measurement(
    redundancy={
        "run": "{run}",
        "effective channels": "{channels:.1f}",
        "share of width": "{share:.3f}",
        "CKA of neighbours": "{likeness:.3f}",
    }
)
def redundancy(
    sheet: Sheet, checkpoints: Checkpoints, dataset: OtherData = None, split: Split = None
) -> None:
    """Count the channels that a layer uses, their share of its width, and how alike layers are.

    Each number is a mean over the blocks of a checkpoint.
    """

    def row(model: nn.Module, images: datasets.Dataset) -> dict:
        found = layer_redundancy(model, as_pixels(images.images, model))
        return {
            "channels": round(found.channels, 4),
            "share": round(found.share, 5),
            "likeness": round(found.likeness, 5),
        }

    subject, about, rows = rows_of_checkpoints(sheet, checkpoints, dataset, split, row)
    settings = about | {
        "channels": "effective, by the participation ratio of the channels' correlations",
        "share": "of them in a layer's channels",
        "likeness": "linear CKA of neighbouring blocks",
        "mean": "over the blocks",
    }
    sheet.write(subject, settings, rows)


@dataclass(frozen=True)
class Redundancy:
    """How far the channels and the layers of a model repeat each other: means over its layers.

    Attributes:
        channels: :func:`effective_channels` of a layer.
        share: these over all channels that the layer has; a low share is high redundancy.
        likeness: :func:`vitbook.analysis.cka` of neighbouring layers; 1 where a layer describes the
            images as the one before it does. nan for a model of one layer.
    """

    channels: float
    share: float
    likeness: float


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

    Example:
        >>> import torch, vitbook
        >>> from vitbook.studies.cnn_designs import layer_redundancy
        >>> model = vitbook.create_model("vit_micro_patch2_8")
        >>> found = layer_redundancy(model, torch.randn(8, 1, 8, 8))
        >>> 1 <= found.channels <= 64 and 0 < found.share <= 1
        True
    """
    chosen = list_blocks(model) if layers is None else tuple(layers)
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
        >>> from vitbook.studies.cnn_designs import effective_channels
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
