"""What a body says of an image, and how far what it says of several images lies apart."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64, UInt8
from torch import Tensor, nn

from vitbook.datasets import normalize
from vitbook.model_utilities import evaluating

# Similarities that are held at once: 64 MB.
MOST = 2**24
SHORTEST = 1e-12  # below, F.normalize brings no length to 1


def mean_token(
    model: nn.Module, images: Float[Tensor, "batch channels height width"]
) -> Float[Tensor, "batch features"]:
    """Mean of the patch tokens after the last norm."""
    return _patch_tokens(model, images).mean(dim=1)


def _patch_tokens(
    model: nn.Module, images: Float[Tensor, "batch channels height width"]
) -> Float[Tensor, "batch patches features"]:
    return model.features(images)[:, getattr(model, "num_prefix_tokens", 0) :]


def mean_tokens(
    model: nn.Module, images: UInt8[Tensor, "n channels height width"], batch_size: int = 256
) -> Float[Tensor, "n features"]:
    """:func:`mean_token` of the images of a data set, in evaluation mode, on the model's device."""
    return _in_batches(mean_token, model, images, batch_size)


def side_by_side(
    model: nn.Module, images: UInt8[Tensor, "n channels height width"], batch_size: int = 256
) -> Float[Tensor, "n all_features"]:
    """All patch tokens after the last norm as one row: unlike their mean it says what is where."""
    return _in_batches(lambda *given: _patch_tokens(*given).flatten(1), model, images, batch_size)


@torch.no_grad()
def _in_batches(
    read: Callable[[nn.Module, Tensor], Tensor], model: nn.Module, images: Tensor, batch_size: int
) -> Float[Tensor, "n features"]:
    device = next(model.parameters()).device
    with evaluating(model):
        seen = [read(model, normalize(some.to(device))) for some in images.split(batch_size)]
    return torch.cat(seen)


@torch.no_grad()
def nearest_other(features: Float[Tensor, "n features"], labels: Int64[Tensor, "n"]) -> float:
    """Share of images whose nearest other image, by the cosine, has their label.

    Of several that are as near to the last bit, one is taken by their order: of a collapsed body,
    all of whose features are alike, this says how the images are sorted.

    Raises:
        ValueError: fewer than two images, features without a length, or other labels than one each.
    """
    if len(features) < 2:
        raise ValueError(f"{len(features)} images: expected two at least, as each needs another")
    if labels.shape != features.shape[:1]:
        raise ValueError(f"labels {tuple(labels.shape)}: expected one for each of {len(features)}")
    lengths = features.float().norm(dim=1)
    if not lengths.isfinite().all():
        raise ValueError("the features hold NaN, or numbers too large to have a length")
    if lengths.min() < SHORTEST:
        raise ValueError(f"features of length {lengths.min():g}: expected {SHORTEST:g} at least")
    known, right = F.normalize(features.float(), dim=1), 0
    rows = max(1, MOST // len(known))
    for first in range(0, len(known), rows):
        alike = known[first : first + rows] @ known.T
        own = torch.arange(len(alike), device=alike.device)
        alike[own, first + own] = -torch.inf
        right += (labels[alike.argmax(dim=1)] == labels[first : first + rows]).sum().item()
    return right / len(known)


def spread(projections: Float[Tensor, "batch dimensions"]) -> float:
    """How far apart the images' directions lie: 1 if in all directions alike, 0 if all are one.

    The share of the unit-length projections that is not their common mean: one less the squared
    length of the mean. A projection of zeros has no direction, and adds nothing.

    Raises:
        ValueError: no image.
    """
    if not len(projections):
        raise ValueError("the spread of no projections: expected one image at least")
    unit = F.normalize(projections.float(), dim=1)
    return (unit.square().sum(dim=1).mean() - unit.mean(dim=0).square().sum()).item()
