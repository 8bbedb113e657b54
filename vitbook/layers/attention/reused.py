"""Self-attention that takes the maps of a layer before it."""

from collections.abc import Sequence

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.layers.attention.softmax import (
    Attention,
    EvenAttention,
    GivenAttention,
    SelfAttention,
    check_heads,
)
from vitbook.layers.encoder import Encoder, EncoderBlock
from vitbook.layers.initialization import linear
from vitbook.layers.shapes import Tokens

# The maps that the layers of one forward pass have shared so far, the last one at the end.
Shared = list[Float[Tensor, "batch sharing_heads tokens tokens"]]


class SharingSelfAttention(SelfAttention):
    """Self-attention that writes its maps out, for layers behind it to use again.

    What it answers is that of :class:`~.softmax.SelfAttention`, but no fused kernel can make it:
    that would never write the maps. ``forward`` takes no mask.
    """

    def __init__(self, width: int, num_heads: int, qkv_bias: bool = True):
        super().__init__(width, num_heads, qkv_bias)
        self.core = GivenAttention()

    def forward(self, tokens: Tokens, shared: Shared | None = None) -> Tokens:
        """Its maps are put at the end of ``shared``."""
        q, k, v = self.heads(self.qkv(tokens))
        maps = Attention.weights(q, k).to(v.dtype)
        if shared is not None:
            shared.append(maps)
        return self.joined(self.core(maps, v))


class EvenSelfAttention(nn.Module):
    """Self-attention in which every token is given the mean of all values: a control.

    It mixes, and looks at nothing. It has no queries and no keys, and so the same weights as
    :class:`ReusingSelfAttention`.

    The arguments are those of :class:`~.softmax.SelfAttention`, ``qkv_bias`` of the values alone.
    """

    def __init__(self, width: int, num_heads: int, qkv_bias: bool = True):
        super().__init__()
        check_heads(width, num_heads)
        self.num_heads = num_heads
        self.values = linear(width, width, bias=qkv_bias)
        self.core = EvenAttention()
        self.projection = linear(width, width)

    def forward(self, tokens: Tokens, shared: Shared | None = None) -> Tokens:
        """The maps that are shared are not looked at."""
        v = rearrange(self.values(tokens), "b n (h d) -> b h n d", h=self.num_heads)
        return self.projection(rearrange(self.mixed(v, shared), "b h n d -> b n (h d)"))

    def mixed(
        self, v: Float[Tensor, "batch heads tokens width"], shared: Shared | None
    ) -> Float[Tensor, "batch heads tokens width"]:
        """What the tokens are given of the values, before the projection."""
        return self.core(v, v, v)


class ReusingSelfAttention(EvenSelfAttention):
    r"""Self-attention whose maps are those of the nearest layer before that shares its own.

    .. math:: [A_1 v_1;\, \ldots;\, A_h v_h]\,U, \qquad A_i \text{ of an earlier layer}

    Bhojanapalli et al. 2021, "Leveraging redundancy in attention with Reuse Transformers": the
    maps of one layer serve several behind it. Each has values and a projection of its own, no
    queries and no keys, and makes no scores. Here all heads of a layer reuse.

    Head i takes the map of head i: the layer that shares has as many.

    Example:
        >>> import torch
        >>> from vitbook.layers import ReusingSelfAttention, SharingSelfAttention
        >>> tokens, shared = torch.rand(2, 17, 64), []
        >>> mixed = SharingSelfAttention(64, 4)(tokens, shared)
        >>> tuple(shared[-1].shape)
        (2, 4, 17, 17)
        >>> tuple(ReusingSelfAttention(64, 4)(tokens + mixed, shared).shape)
        (2, 17, 64)
    """

    def __init__(self, width: int, num_heads: int, qkv_bias: bool = True):
        super().__init__(width, num_heads, qkv_bias)
        self.core = GivenAttention()

    def mixed(
        self, v: Float[Tensor, "batch heads tokens width"], shared: Shared | None
    ) -> Float[Tensor, "batch heads tokens width"]:
        if not shared:
            raise ValueError(
                "no maps to reuse: expected a SharingSelfAttention before, in the same "
                "ReusingEncoder"
            )
        return self.core(shared[-1], v)


class ReusingBlock(EncoderBlock):
    """The Pre-LN block around an attention that shares maps, reuses them or looks at none."""

    def forward(self, tokens: Tokens, shared: Shared | None = None) -> Tokens:
        tokens = tokens + self.drop_path(self.dropout(self.attention(self.norm1(tokens), shared)))
        return tokens + self.drop_path(self.dropout(self.mlp(self.norm2(tokens))))


class ReusingEncoder(Encoder):
    """An encoder whose blocks hand maps on to those behind them, within one forward pass.

    The list of maps lives as long as the pass: no block keeps one, and two threads share none.

    Raises:
        ValueError: a block that reuses before any that shares.
    """

    def __init__(self, blocks: Sequence[ReusingBlock], width: int):
        super().__init__(blocks, width)
        sharing = False
        for number, block in enumerate(blocks):
            sharing = sharing or isinstance(block.attention, SharingSelfAttention)
            if isinstance(block.attention, ReusingSelfAttention) and not sharing:
                raise ValueError(
                    f"block {number} reuses maps, but none before it shares its own: put a "
                    "SharingSelfAttention before it"
                )

    def forward(self, tokens: Tokens) -> Tokens:
        shared: list[torch.Tensor] = []
        for block in self.blocks:
            tokens = block(tokens, shared)
        return self.norm(tokens)
