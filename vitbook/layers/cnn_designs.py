"""Ideas of convolutional networks, carried over to the Transformer's blocks."""

from collections.abc import Sequence

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.layers.attention.softmax import Attention, Mask, SelfAttention
from vitbook.layers.encoder import MLP, Encoder, EncoderBlock
from vitbook.layers.initialization import linear
from vitbook.layers.shapes import Tokens


class SqueezeExcitation(nn.Module):
    r"""Weigh every channel by what the image as a whole shows.

    .. math:: z \cdot \sigma\big(W_2\, \mathrm{ReLU}(W_1\, \mathrm{mean}_i\, z^i)\big)

    Hu et al. 2018, section 3; the mean is over all tokens, prefix included.

    Args:
        width: of a token.
        reduction: how much narrower the hidden layer is.
    """

    def __init__(self, width: int, reduction: int = 16):
        super().__init__()
        self.squeeze = linear(width, width // reduction, bias=False)
        self.excite = linear(width // reduction, width, bias=False)

    def forward(self, tokens: Tokens) -> Tokens:
        hidden = self.squeeze(tokens.mean(dim=1, keepdim=True)).relu()
        return tokens * self.excite(hidden).sigmoid()


class SqueezedSelfAttention(SelfAttention):
    """Self-attention with :class:`SqueezeExcitation` after its last projection.

    T2T-ViT paper, section 3.2 (T2T-ViT-SE), and its code.
    """

    def __init__(self, width: int, num_heads: int, qkv_bias: bool = False):
        super().__init__(width, num_heads, qkv_bias)
        self.gate = SqueezeExcitation(width)

    def forward(self, tokens: Tokens, mask: Mask | None = None) -> Tokens:
        return self.gate(super().forward(tokens, mask))


class GhostSelfAttention(nn.Module):
    """Self-attention that makes half of its queries, keys and values from the other half.

    Han et al. 2020, "GhostNet", section 3.1; T2T-ViT paper, section 3.2 (T2T-ViT-Ghost), and its
    code. The cheap operation is one factor for each channel: where the number of heads is even,
    each head of the last half looks with a rescaled copy of what one of the first half has.

    The arguments are those of :class:`~.softmax.SelfAttention`; the width must be even too.
    """

    def __init__(self, width: int, num_heads: int, qkv_bias: bool = False):
        super().__init__()
        if width % num_heads or width % 2:
            raise ValueError(
                f"width {width} is not divisible by {num_heads} heads and by 2: "
                "use a width that is a multiple of both"
            )
        self.num_heads = num_heads
        self.qkv = linear(width, 3 * width // 2, bias=qkv_bias)
        self.cheap = channel_factors(3 * width // 2)
        self.core = Attention()
        self.projection = linear(width, width)

    def forward(self, tokens: Tokens, mask: Mask | None = None) -> Tokens:
        first = self.qkv(tokens)
        both = torch.stack([first, first * self.cheap])
        whole = rearrange(both, "two b n (three d) -> three b n (two d)", three=3)
        q, k, v = rearrange(whole, "three b n (h d) -> three b h n d", h=self.num_heads)
        mixed = self.core(q, k, v, mask)
        return self.projection(rearrange(mixed, "b h n d -> b n (h d)"))


class GhostMLP(nn.Module):
    """An MLP whose hidden layer is one true part, as wide as a token, and cheap copies of it.

    Han et al. 2020, section 3.1; T2T-ViT's code: a copy is one factor for each channel, then a
    GELU again.

    ``hidden_width`` must be a multiple of ``width``.
    """

    def __init__(self, width: int, hidden_width: int):
        super().__init__()
        if hidden_width < width or hidden_width % width:
            raise ValueError(
                f"hidden width {hidden_width} is no multiple of width {width}: "
                f"use {width * max(1, hidden_width // width)}"
            )
        self.expand = linear(width, width)
        self.activation = nn.GELU()
        self.cheap = channel_factors(hidden_width - width)
        self.contract = linear(hidden_width, width)

    def forward(self, tokens: Tokens) -> Tokens:
        true = self.activation(self.expand(tokens))
        copies = true.repeat(1, 1, len(self.cheap) // true.shape[-1])
        ghosts = self.activation(copies * self.cheap)
        return self.contract(torch.cat([true, ghosts], dim=-1))


def channel_factors(width: int) -> nn.Parameter:
    """One factor for each channel, as torch starts a convolution of one weight: in (-1, 1)."""
    return nn.Parameter(torch.empty(width).uniform_(-1, 1))


class DenseBlock(nn.Module):
    r"""A block that puts what it found beside its input, :math:`[z,\; \mathrm{block}(z)\,G]`.

    Huang et al. 2017, "Densely connected convolutional networks", section 3; T2T-ViT paper,
    section 3.2 (T2T-ViT-Dense), and its code.
    """

    def __init__(self, block: nn.Module, width: int, growth: int):
        super().__init__()
        self.block = block
        self.growth = linear(width, growth)

    def forward(self, tokens: Tokens) -> Float[Tensor, "batch tokens grown_width"]:
        return torch.cat([tokens, self.growth(self.block(tokens))], dim=-1)


class DenseEncoder(Encoder):
    """Stages in which tokens grow by every block, halved between two stages, with a last norm.

    The transition is a linear layer and a GELU, as in T2T-ViT's code. ``out_width`` is the width
    of a token that goes out.

    Args:
        width: of a token that comes in.
        depths: blocks of each stage.
        growth: channels that a block adds.
        num_heads: of every block; must divide every width on the way.
        mlp_ratio: hidden width of a block's MLP over the width of its tokens.
    """

    def __init__(
        self, width: int, depths: Sequence[int], growth: int, num_heads: int, mlp_ratio: int
    ):
        blocks: list[nn.Module] = []
        for stage, depth in enumerate(depths):
            if stage > 0:
                halve = linear(width, width // 2)
                # No shortcut leads around it: at small widths a deviation of 0.02 would leave
                # nothing of the tokens after two of them, and nothing would be learned.
                nn.init.trunc_normal_(halve.weight, std=width**-0.5)
                blocks.append(nn.Sequential(halve, nn.GELU()))
                width //= 2
            for _ in range(depth):
                block = EncoderBlock(
                    attention=SelfAttention(width, num_heads, qkv_bias=False),
                    mlp=MLP(width, mlp_ratio * width),
                    width=width,
                )
                blocks.append(DenseBlock(block, width, growth))
                width += growth
        super().__init__(blocks, width)
        self.out_width = width
