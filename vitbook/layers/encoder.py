"""The Transformer encoder."""

from collections.abc import Callable, Sequence
from numbers import Real

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from vitbook.layers.initialization import linear
from vitbook.layers.normalization import layer_norm
from vitbook.layers.shapes import Tokens


def _checked_rate(of: str, rate: float) -> float:
    if isinstance(rate, bool) or not isinstance(rate, Real) or not 0 <= rate < 1:
        raise ValueError(f"{of} {rate!r}: expected a rate from 0 up to, not with, 1")
    return rate


class Dropout(nn.Module):
    """Set each number to zero with probability ``rate``, while training.

    Srivastava et al. 2014. What survives is divided by ``1 - rate``, so that its mean stays. The
    ViT paper has it after every linear layer but those to queries, keys and values, and once
    after the positions are added (appendix B.1).
    """

    def __init__(self, rate: float = 0.0):
        super().__init__()
        self.rate = _checked_rate("dropout", rate)

    def forward(self, tokens: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        if not self.training or self.rate == 0:
            return tokens
        return F.dropout(tokens, self.rate)


class MLP(nn.Module):
    """Two linear layers with a GELU between them, applied to each token alone (section 3.1)."""

    def __init__(self, width: int, hidden_width: int):
        super().__init__()
        self.expand = linear(width, hidden_width)
        self.activation = nn.GELU()
        self.dropout = Dropout()
        self.contract = linear(hidden_width, width)

    def forward(self, tokens: Tokens) -> Tokens:
        return self.contract(self.dropout(self.activation(self.expand(tokens))))


class StochasticDepth(nn.Module):
    """Drop a residual branch for whole images, with probability ``rate``, while training.

    Huang et al. 2016. What survives is divided by ``1 - rate``, so that its mean stays.
    """

    def __init__(self, rate: float = 0.0):
        super().__init__()
        self.rate = _checked_rate("stochastic depth", rate)

    def forward(self, branch: Tokens) -> Tokens:
        if not self.training or self.rate == 0:
            return branch
        keep = torch.rand(len(branch), 1, 1, device=branch.device) >= self.rate
        return branch * keep.to(branch.dtype) / (1 - self.rate)


class EncoderBlock(nn.Module):
    r"""Attention, then an MLP, each behind a LayerNorm and around a shortcut (Pre-LN).

    .. math::
        z' = \mathrm{MSA}(\mathrm{LN}(z)) + z, \qquad z'' = \mathrm{MLP}(\mathrm{LN}(z')) + z'

    ViT paper, equations 2 and 3.

    Args:
        attention: the layer that mixes tokens, for example :class:`~.softmax.SelfAttention`.
        mlp: the layer that works on each token.
        width: of a token.
        make_norm: called with ``width``, for example :class:`~.normalization.RMSNorm`.
    """

    def __init__(
        self,
        attention: nn.Module,
        mlp: nn.Module,
        width: int,
        make_norm: Callable[[int], nn.Module] = layer_norm,
    ):
        super().__init__()
        self.norm1 = make_norm(width)
        self.attention = attention
        self.norm2 = make_norm(width)
        self.mlp = mlp
        self.dropout = Dropout()
        self.drop_path = StochasticDepth()

    def forward(self, tokens: Tokens) -> Tokens:
        tokens = tokens + self.drop_path(self.dropout(self.attention(self.norm1(tokens))))
        return tokens + self.drop_path(self.dropout(self.mlp(self.norm2(tokens))))


class PostNormBlock(EncoderBlock):
    r"""The block of the first Transformer: each LayerNorm stands behind its shortcut (Post-LN).

    .. math::
        z' = \mathrm{LN}(\mathrm{MSA}(z) + z), \qquad z'' = \mathrm{LN}(\mathrm{MLP}(z') + z')

    Vaswani et al. 2017, section 3.1. Near the output its gradients do not fall with depth, and at
    a high rate it needs a warm-up more than the Pre-LN block does (Xiong et al. 2020).
    """

    def forward(self, tokens: Tokens) -> Tokens:
        tokens = self.norm1(tokens + self.drop_path(self.dropout(self.attention(tokens))))
        return self.norm2(tokens + self.drop_path(self.dropout(self.mlp(tokens))))


class Encoder(nn.Module):
    """A stack of blocks and the norm after the last one (equation 4).

    A stack that ends in a :class:`PostNormBlock` has had its last norm.
    """

    def __init__(
        self,
        blocks: Sequence[nn.Module],
        width: int,
        make_norm: Callable[[int], nn.Module] = layer_norm,
    ):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        normed = bool(blocks) and isinstance(blocks[-1], PostNormBlock)
        self.norm = nn.Identity() if normed else make_norm(width)

    # What goes out has another shape where blocks shrink the sequence, or widen the tokens.
    def forward(self, tokens: Tokens) -> Float[Tensor, "batch out_tokens out_width"]:
        for block in self.blocks:
            tokens = block(tokens)
        return self.norm(tokens)


class PositionedEncoder(Encoder):
    """An encoder that tells the tokens their positions again at the start of every block.

    ViT paper, appendix D.4, "Every Layer", and, where the same module stands at every block,
    "Every Layer-Shared". The first block's positions take the place of those at the stem.

    Args:
        blocks: as in :class:`Encoder`.
        positions: one for each block, for example :class:`~.positions.LearnedPosition`; the same
            one may come several times.
        width: of a token.
    """

    def __init__(self, blocks: Sequence[nn.Module], positions: Sequence[nn.Module], width: int):
        super().__init__(blocks, width)
        self.positions = nn.ModuleList(positions)

    def forward(self, tokens: Tokens) -> Tokens:
        for position, block in zip(self.positions, self.blocks, strict=True):
            tokens = block(position(tokens))
        return self.norm(tokens)
