"""Uphill and back: what sharpness-aware minimisation does around a step."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from numbers import Real

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase


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
