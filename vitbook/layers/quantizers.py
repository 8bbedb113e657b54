"""Numbers on a grid of few values."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int8
from torch import Tensor, nn

from vitbook.errors import is_whole_number


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
        return self.codes * self.step


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
        ValueError: other bits; values that are NaN or infinite.

    Example:
        >>> import torch
        >>> from vitbook.layers import quantize
        >>> codes, step = quantize(torch.tensor([0.0, 0.5, -1.4]), bits=3)
        >>> codes.tolist(), round(step.item(), 3)
        ([0, 1, -3], 0.467)
    """
    if not is_whole_number(bits) or not 2 <= bits <= 8:
        raise ValueError(f"{bits!r} bits: expected a whole number from 2 to 8")
    if not values.isfinite().all():
        raise ValueError("the values hold NaN or infinity: expected finite ones")
    most = 2 ** (bits - 1) - 1
    axes = tuple(range(values.ndim)) if dim is None else dim
    largest = values.abs().amax(dim=axes, keepdim=True)
    step = (largest / most).clamp_min(torch.finfo(values.dtype).tiny)  # a slice of zeros
    codes = (values / step).round().clamp(-most, most)
    return Quantized(codes.to(torch.int8), step)


def fake_quantize(
    values: Float[Tensor, "*shape"], bits: int, dim: int | tuple[int, ...] | None = None
) -> Float[Tensor, "*shape"]:
    """Forward the nearest points of the grid; backward as if nothing had been rounded.

    The straight-through estimator (Bengio, Léonard and Courville 2013): rounding has slope zero
    almost everywhere, by which nothing would ever learn.

    Args:
        bits: as in :func:`quantize`.
        dim: likewise.

    Raises:
        ValueError: as :func:`quantize`.
    """
    return values + (quantize(values.detach(), bits, dim).values - values).detach()


class QuantizedLinear(nn.Linear):
    """A linear layer that computes with rounded weights and learns the exact ones behind them.

    Quantization-aware training (Jacob et al. 2018) of weights alone, with a step a channel.

    Args:
        layer: whose weights are shared.
        bits: of a weight, 2 to 8.
    """

    def __init__(self, layer: nn.Linear, bits: int):
        nn.Module.__init__(self)
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.weight, self.bias, self.bits = layer.weight, layer.bias, bits
        quantize(self.weight.detach()[:1], bits)  # refuses bits that cannot be

    def forward(self, inputs: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        return F.linear(inputs, fake_quantize(self.weight, self.bits, dim=1), self.bias)

    @torch.no_grad()
    def round(self) -> nn.Linear:
        """The plain layer with the rounded weights, in the place of the exact ones."""
        plain = nn.Linear(self.in_features, self.out_features, bias=False, device="meta")
        plain.weight, plain.bias = self.weight, self.bias
        plain.weight.copy_(quantize(self.weight, self.bits, dim=1).values)
        return plain.train(self.training)
