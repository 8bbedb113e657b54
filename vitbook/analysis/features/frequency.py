"""How fast filters change from pixel to pixel: their ripples, slow and fast."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from vitbook.devices import to_float64


class FrequencySplit(NamedTuple):
    """Filters in two parts; their sum is what came."""

    slow: Float[Tensor, "*lead height width"]
    fast: Float[Tensor, "*lead height width"]


def spatial_frequency(filters: Float[Tensor, "*lead height width"]) -> Float[Tensor, "*lead"]:
    r"""Mean frequency of each filter or channel, in cycles a pixel.

    .. math:: f = \sum_{uv} a_{uv}^2 f_{uv} \Big/ \sum_{uv} a_{uv}^2, \qquad
              f_{uv} = \sqrt{(u / 2P)^2 + (v / 2Q)^2}

    where :math:`a_{uv}` is the amount of the ripple :math:`\cos(\pi u (i + 1/2) / P)
    \cos(\pi v (j + 1/2) / Q)` in a filter of P x Q pixels (DCT-II). A ripple, unlike a Fourier
    wave, need not end where it began, so that a plain slope is slow. A flat filter has 0, white
    noise about 0.37, and no filter more than 0.71. Two filters that are each other's mirror image
    have the same. A filter of zeros has no frequency: nan.

    Args:
        filters: at least one pixel high and wide. For one number a filter of several channels,
            weigh its channels by their squares: ``spatial_frequency`` sees each alone.

    Raises:
        TypeError: complex numbers.
        ValueError: NaN or infinity, or filters without a height, a width, or a pixel.
    """
    squares = _amounts(filters).square()
    height, width = filters.shape[-2:]
    weighted = (squares * _frequencies(height, width).to(squares)).sum((-2, -1))
    exact = torch.promote_types(filters.dtype, torch.float32)
    return (weighted / squares.sum((-2, -1))).to(exact)


def split_at_frequency(
    filters: Float[Tensor, "*lead height width"], cutoff: float | int
) -> FrequencySplit:
    """The part of each filter that is slower than ``cutoff`` cycles a pixel, and the rest.

    The parts stand at right angles, so that their squares add up to those of the filter.

    Raises:
        TypeError, ValueError: as :func:`spatial_frequency`, or a cutoff below 0.

    Example:
        >>> import torch
        >>> from vitbook.analysis import split_at_frequency
        >>> slow, fast = split_at_frequency(torch.tensor([[3.0, 1.0]]), 0.1)
        >>> slow.round(decimals=4).tolist(), fast.round(decimals=4).tolist()
        ([[2.0, 2.0]], [[1.0, -1.0]])
    """
    if not cutoff >= 0:
        raise ValueError(f"cutoff {cutoff}: expected 0 or more, in cycles a pixel")
    amounts = _amounts(filters)
    height, width = filters.shape[-2:]
    kept = amounts * (_frequencies(height, width).to(amounts) < cutoff)
    down, across = (_ripples(side).to(amounts) for side in (height, width))
    exact = filters.to(torch.promote_types(filters.dtype, torch.float32))
    slow = (down.T @ kept @ across).to(exact)
    return FrequencySplit(slow, exact - slow)


def _amounts(filters: Tensor) -> Float[Tensor, "*lead height width"]:
    """Of each ripple in each filter, in float64."""
    if filters.ndim < 2 or 0 in filters.shape[-2:]:
        raise ValueError(
            f"filters of shape {tuple(filters.shape)}: expected (..., height, width), each at "
            "least 1 pixel"
        )
    if filters.is_complex():
        raise TypeError("filters are complex: expected real numbers, for example their .abs()")
    exact = to_float64(filters.detach())
    if not exact.isfinite().all():
        raise ValueError("filters hold NaN or infinity: expected finite numbers")
    down, across = (_ripples(side).to(exact) for side in filters.shape[-2:])
    return down @ exact @ across.T


def _ripples(side: int) -> Float[Tensor, "side side"]:
    """A ripple in each line, the flat one first, at right angles and of length 1."""
    turns = torch.arange(side, dtype=torch.float64)
    return F.normalize(torch.cos(torch.pi * turns[:, None] * (turns + 0.5) / side), dim=1)


def _frequencies(height: int, width: int) -> Float[Tensor, "height width"]:
    """Of each pair of ripples, in cycles a pixel: a ripple u goes through u / 2 cycles."""
    down, across = (
        torch.arange(side, dtype=torch.float64) / (2 * side) for side in (height, width)
    )
    return torch.hypot(down[:, None], across)
