"""Weights of few values: on a grid, or zero."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int8
from torch import Tensor, nn

from vitbook.errors import is_whole_number
from vitbook.layers.adapters import plain_linear


class Quantized(NamedTuple):
    """Whole numbers, and the step between two of them.

    Attributes:
        codes: from :math:`-(2^{b-1} - 1)` to :math:`2^{b-1} - 1`.
        step: of each slice that has its own; it has the axes of the codes.
    """

    codes: Int8[Tensor, "*shape"]
    step: Float[Tensor, "*steps"]

    @property
    def values(self) -> Float[Tensor, "*shape"]:
        most = torch.finfo(self.step.dtype).max  # where a rounded step would carry over it
        return (self.codes * self.step).clamp(-most, most)


def quantize(
    values: Float[Tensor, "*shape"], bits: int, dim: int | tuple[int, ...] | None = None
) -> Quantized:
    r"""The nearest points of an even grid around zero, which ends at the largest absolute value.

    .. math::
        s = \frac{\max |x|}{2^{b-1} - 1}, \qquad q = \mathrm{round}(x / s), \qquad
        |x - s\,q| \le \frac{s}{2}

    Symmetric uniform quantization (Nagel et al. 2021, "A white paper on neural network
    quantization", section 2.2). One large value stretches the grid for all that share its step.

    Args:
        bits: of a code, 2 to 8.
        dim: axes over which one step is shared; by default all. A weight "outputs inputs" has a
            step a channel with ``dim=1``, a step in all with None.

    Raises:
        ValueError: other bits; no values, or such as are whole numbers, NaN or infinite.

    Example:
        >>> import torch
        >>> from vitbook.layers import quantize
        >>> codes, step = quantize(torch.tensor([0.0, 0.5, -1.4]), bits=3)
        >>> codes.tolist(), round(step.item(), 3)
        ([0, 1, -3], 0.467)
    """
    check_bits(bits)
    if not values.is_floating_point() or not values.numel():
        kind = str(values.dtype).removeprefix("torch.")
        raise ValueError(
            f"values of shape {tuple(values.shape)} and {kind}: expected one or more, in floating "
            "point"
        )
    if not values.isfinite().all():
        raise ValueError("the values hold NaN or infinity: expected finite ones")
    return _nearest(values, bits, dim)


def check_bits(bits: int) -> None:
    """Refuse numbers of bits that no grid here has.

    Raises:
        ValueError: bits that no code here has.
    """
    if not is_whole_number(bits) or not 2 <= bits <= 8:
        raise ValueError(f"{bits!r} bits: expected a whole number from 2 to 8")


def _nearest(values: Tensor, bits: int, dim: int | tuple[int, ...] | None) -> Quantized:
    most = 2 ** (bits - 1) - 1
    axes = tuple(range(values.ndim)) if dim is None else dim
    exact = values.to(torch.promote_types(values.dtype, torch.float32))
    # Of a slice of zeros. float16 needs the steps below its normal numbers: 6e-5 in 127 is 0.008.
    least = 2**-24 if values.dtype == torch.float16 else torch.finfo(values.dtype).tiny
    largest = exact.abs().amax(dim=axes, keepdim=True)
    step = (largest / most).to(values.dtype).clamp_min(least)
    # Rounded down there, by so much that the grid would end half a step before the largest value.
    step = torch.where(largest > (most + 0.5) * step.to(largest.dtype), step + least, step)
    codes = (exact / step).round().clamp(-most, most)
    return Quantized(codes.to(torch.int8), step)


def _straight_through(values: Tensor, rounded: Quantized) -> Tensor:
    """Forward the rounded values; backward as if nothing had been rounded.

    The straight-through estimator (Bengio, Léonard and Courville 2013): rounding has slope zero
    almost everywhere, by which nothing would ever learn.
    """
    return values + (rounded.values - values).detach()


class QuantizedLinear(nn.Linear):
    """A linear layer that computes with rounded weights and learns the exact ones behind them.

    Quantization-aware training (Jacob et al. 2018) of weights alone, with a step a channel. Weights
    that have become NaN answer NaN, as those of any layer: training then says that it diverged.

    Args:
        layer: whose weights are shared.
        bits: of a weight, 2 to 8.

    Raises:
        ValueError: other bits.
    """

    def __init__(self, layer: nn.Linear, bits: int):
        nn.Module.__init__(self)
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.weight, self.bias, self.bits = layer.weight, layer.bias, bits
        check_bits(bits)

    def forward(self, inputs: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        return F.linear(inputs, _straight_through(self.weight, self._rounded()), self.bias)

    def _rounded(self) -> Quantized:
        return _nearest(self.weight.detach(), self.bits, dim=1)

    @torch.no_grad()
    def codes(self) -> Int8[Tensor, "outputs inputs"]:
        """The whole numbers that stand for the weights now."""
        return self._rounded().codes

    @torch.no_grad()
    def round(self) -> nn.Linear:
        """The plain layer with the rounded weights, in the place of the exact ones."""
        self.weight.copy_(self._rounded().values)
        return plain_linear(self)


class PrunedLinear(nn.Linear):
    """A linear layer of whose weights some are zero and stay zero while the rest learn.

    Args:
        layer: whose weights are shared.
        mask: true where a weight is kept.
    """

    def __init__(self, layer: nn.Linear, mask: Bool[Tensor, "outputs inputs"]):
        nn.Module.__init__(self)
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.weight, self.bias = layer.weight, layer.bias
        self.register_buffer("mask", mask)

    def forward(self, inputs: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        return F.linear(inputs, self.weight * self.mask, self.bias)

    @torch.no_grad()
    def settle(self) -> nn.Linear:
        """The plain layer with zeros in the place of what was pruned."""
        self.weight *= self.mask
        return plain_linear(self)
