"""Sharpness: how steeply the loss rises around the weights, and learning where it does not."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from numbers import Real

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from vitbook.datasets import Dataset
from vitbook.errors import check_count
from vitbook.model_utilities import evaluating
from vitbook.training.engine.evaluation import as_pixels, check_outputs
from vitbook.training.engine.loss import cross_entropy


@dataclass(frozen=True)
class Sharpness:
    """The mean loss of a data set where the weights are, and uphill of them.

    Attributes:
        loss: cross-entropy at the weights.
        uphill: ``radius`` away from them, along the gradient.
    """

    loss: float
    uphill: float

    @property
    def rise(self) -> float:
        return self.uphill - self.loss


@contextmanager
def uphill(model: nn.Module, radius: float | int) -> Iterator[None]:
    r"""Inside, the weights stand ``radius`` away, where the loss is highest to first order.

    .. math:: w + \rho\, \frac{g}{\lVert g \rVert_2}

    Foret et al. 2021, "Sharpness-Aware Minimization", equation 2 with p = 2. Afterwards every
    weight has its bits again. Batch norms take the statistics of what they see inside, and they
    and instance norms keep none: those belong to the weights themselves.

    Args:
        model: with the gradients of its loss; what has none, or does not learn, stays where it is.
        radius: the length of the step over all weights, above 0.

    Raises:
        ValueError: a radius that is no number, not above 0, or infinite.
    """
    if not isinstance(radius, Real) or isinstance(radius, bool) or not 0 < radius < float("inf"):
        raise ValueError(f"radius {radius!r}: expected a number above 0, such as 0.05")
    # What was frozen may still have a gradient, of an earlier loss.
    moved = [each for each in model.parameters() if each.requires_grad and each.grad is not None]
    norms = [part for part in model.modules() if isinstance(part, _NormBase)]
    changed = moved + [buffer for part in norms for buffer in part.buffers()]
    before = [each.detach().clone() for each in changed]
    try:
        _climb(moved, radius)
        yield
    finally:
        with torch.no_grad():
            for each, own in zip(changed, before, strict=True):
                each.copy_(own)


@torch.no_grad()
def _climb(weights: Sequence[nn.Parameter], radius: float | int) -> None:
    # In float16 the length would be infinite from 65,504 on, and radius / length for a short one.
    slopes = [each.grad.to(torch.promote_types(each.dtype, torch.float32)) for each in weights]
    if not slopes or not (steepness := nn.utils.get_total_norm(slopes)):
        return  # on a plain there is no way up
    torch._foreach_add_(list(weights), torch._foreach_mul(slopes, radius / steepness))


def sharpness(
    model: nn.Module, dataset: Dataset, radius: float | int, *, batch_size: int = 256
) -> Sharpness:
    """How far the loss of ``dataset`` rises ``radius`` uphill, as SAM's first step goes.

    A model in evaluation; neither its weights nor its gradients are changed. The length of the
    step is that of the weights themselves: models whose weights differ in size are not compared
    by it (Dinh et al. 2017, "Sharp minima can generalize for deep nets").

    Args:
        model: from images to logits.
        dataset: whose images and labels it is asked about.
        radius: above 0.
        batch_size: images that it is given at once, 1 or more.

    Raises:
        ValueError: a radius or a batch size that is not above 0, a loss that is no finite number
            here or so far uphill, no images, fewer outputs than classes, no weight that learns,
            or one of 16 bits.

    Example:
        >>> import vitbook
        >>> from vitbook.datasets import load
        >>> from vitbook.training import sharpness
        >>> model = vitbook.create_model("vit_micro_patch2_8")
        >>> found = sharpness(model, load("digits", "test"), 0.05)
        >>> found.rise > 0
        True
    """
    check_count("batch_size", batch_size)
    if not len(dataset):
        raise ValueError("a data set of no images: expected one or more, whose loss has a mean")
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    if not weights:
        raise ValueError(
            f"no weight of this {type(model).__name__} learns: expected one, whose loss has a slope"
        )
    if coarse := [weight.dtype for weight in weights if weight.dtype.itemsize < 4]:
        raise ValueError(
            f"weights of {str(coarse[0]).removeprefix('torch.')}, which round a step of {radius!r} "
            "away: expected float32 or more; call model.float() first"
        )
    device, gradients = weights[0].device, [weight.grad for weight in weights]

    def losses() -> Iterator[Tensor]:  # the mean over all images, in parts
        parts = dataset.images.split(batch_size), dataset.labels.split(batch_size)
        for images, labels in zip(*parts, strict=True):
            logits = model(as_pixels(images, model))
            check_outputs(logits, dataset)
            share = len(images) / len(dataset)
            yield share * cross_entropy(logits, labels.to(device), 0.0)

    with evaluating(model), torch.inference_mode(False), torch.enable_grad():
        try:
            for weight in weights:
                weight.grad = None
            here = 0.0
            for part in losses():
                part.backward()
                here += part.item()
            if not isfinite(here):
                raise ValueError(
                    f"the loss at the weights is {here:g}: expected a finite number; check the "
                    "weights for NaN and infinity"
                )
            with uphill(model, radius), torch.no_grad():
                there = sum(part.item() for part in losses())
        finally:
            for weight, gradient in zip(weights, gradients, strict=True):
                weight.grad = gradient
    if not isfinite(there):
        raise ValueError(
            f"the loss goes from {here:.4g} to {there:g} over a radius of {radius:g}: expected a "
            "finite number; take a smaller radius"
        )
    return Sharpness(here, there)
