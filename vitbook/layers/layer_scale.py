"""A residual branch that starts almost silent."""

from collections.abc import Callable

import torch
from torch import nn

from vitbook.layers.encoder import EncoderBlock
from vitbook.layers.normalization import layer_norm
from vitbook.layers.shapes import Tokens


class LayerScale(nn.Module):
    r"""One learned factor for each channel of a residual branch, :math:`\lambda \odot z`.

    CaiT (Touvron et al. 2021, "Going deeper with Image Transformers"), section 2. A small start
    makes each block nearly the identity, so that deep models train: 0.1 up to 18 blocks, less for
    more. DINOv2 starts at 1e-5.

    Args:
        width: of a token.
        start: value of every factor before training.
    """

    def __init__(self, width: int, start: float = 1e-5):
        super().__init__()
        self.factor = nn.Parameter(torch.full((width,), start))

    def forward(self, branch: Tokens) -> Tokens:
        return branch * self.factor


class LayerScaleBlock(EncoderBlock):
    r"""The Pre-LN block with a :class:`LayerScale` at the end of either branch.

    .. math::
        z' = \lambda_1 \odot \mathrm{MSA}(\mathrm{LN}(z)) + z, \qquad
        z'' = \lambda_2 \odot \mathrm{MLP}(\mathrm{LN}(z')) + z'

    CaiT, equation 4; the block of DINOv2 (Oquab et al. 2023).

    Args:
        attention, mlp, width, make_norm: as in :class:`~.encoder.EncoderBlock`.
        start: as in :class:`LayerScale`.

    Example:
        >>> import torch
        >>> from vitbook.layers import MLP, LayerScaleBlock, SelfAttention
        >>> block = LayerScaleBlock(SelfAttention(64, 4), MLP(64, 128), 64)
        >>> tokens = torch.randn(2, 17, 64)
        >>> bool((block(tokens) - tokens).abs().max() < 1e-3)
        True
    """

    def __init__(
        self,
        attention: nn.Module,
        mlp: nn.Module,
        width: int,
        make_norm: Callable[[int], nn.Module] = layer_norm,
        start: float = 1e-5,
    ):
        super().__init__(attention, mlp, width, make_norm)
        self.scale1 = LayerScale(width, start)
        self.scale2 = LayerScale(width, start)

    def forward(self, tokens: Tokens) -> Tokens:
        mixed = self.dropout(self.attention(self.norm1(tokens)))
        tokens = tokens + self.drop_path(self.scale1(mixed))
        return tokens + self.drop_path(self.scale2(self.dropout(self.mlp(self.norm2(tokens)))))
