"""Norms of a token: what stands before attention, before the MLP and behind the last block."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


def layer_norm(width: int) -> nn.LayerNorm:
    r"""Centre a token, scale it to deviation one, then a gain and a bias for each channel.

    .. math:: \mathrm{LN}(z) = g \odot \frac{z - \mu}{\sqrt{\sigma^2 + \epsilon}} + b

    Ba et al. 2016, "Layer normalization"; epsilon is that of the ViT paper's code.
    """
    return nn.LayerNorm(width, eps=1e-6)


class RMSNorm(nn.RMSNorm):
    r"""Scale a token to a mean square of one, then a gain for each channel: nothing is centred.

    .. math:: \mathrm{RMSNorm}(z) = g \odot \frac{z}{\sqrt{\frac{1}{d}\sum_i z_i^2 + \epsilon}}

    Zhang and Sennrich 2019, "Root mean square layer normalization", equation 4.

    Example:
        >>> import torch
        >>> from vitbook.layers import RMSNorm
        >>> [round(number, 2) for number in RMSNorm(2)(torch.tensor([3.0, 4.0])).tolist()]
        [0.85, 1.13]
    """

    def __init__(self, width: int):
        super().__init__(width, eps=1e-6)

    def forward(self, tokens: Float[Tensor, "*lead width"]) -> Float[Tensor, "*lead width"]:
        # Autocast brings half precision, as to a LayerNorm; the fused kernel takes one dtype,
        # here the finer of both.
        exact = tokens.to(torch.promote_types(tokens.dtype, self.weight.dtype))
        gains = self.weight.to(exact.dtype)
        return F.rms_norm(exact, self.normalized_shape, gains, self.eps)
