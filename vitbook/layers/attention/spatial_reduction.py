"""Attention to a smaller copy of the map."""

from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.layers.attention.softmax import Attention, check_heads
from vitbook.layers.initialization import linear
from vitbook.layers.shapes import Tokens
from vitbook.layers.shrinking import OnGrid


class SpatialReductionAttention(nn.Module):
    r"""Self-attention whose keys and values come from the map made ``reduction`` times smaller.

    .. math:: \mathrm{softmax}(q(z)\,k(\tilde z)^\top/\sqrt{d})\,v(\tilde z), \qquad
              \tilde z = \mathrm{LN}(\mathrm{Conv}_{R \times R,\,\text{stride } R}(z))

    Wang et al. 2021, PVT, section 3.3; kept in PVT v2 (Wang et al. 2022). Every
    query sees the whole image, coarsely; R squared fewer scores are computed. As in Linformer a key
    is a mixture of tokens, but of R x R neighbours and by the same weights everywhere. The captured
    map is "batch heads tokens keys".

    Args:
        width, num_heads, qkv_bias: as in :class:`~.softmax.SelfAttention`.
        grid_size: (rows, columns) of the tokens.
        reduction: R, must divide the grid; 1 leaves every token a key.
    """

    def __init__(
        self,
        width: int,
        num_heads: int,
        qkv_bias: bool = True,
        *,
        grid_size: tuple[int, int],
        reduction: int,
    ):
        super().__init__()
        check_heads(width, num_heads)
        rows, columns = grid_size
        if reduction < 1 or rows % reduction or columns % reduction:
            raise ValueError(
                f"a grid of {rows}x{columns} tokens is not divisible by reduction {reduction}: "
                "use a reduction that divides both sides, or images of another size"
            )
        self.num_heads = num_heads
        self.q = linear(width, width, bias=qkv_bias)
        self.kv = linear(width, 2 * width, bias=qkv_bias)
        self.reduced = nn.Identity() if reduction == 1 else _Reduced(width, grid_size, reduction)
        self.core = Attention()
        self.projection = linear(width, width)

    def forward(self, tokens: Tokens) -> Tokens:
        q = rearrange(self.q(tokens), "b n (h d) -> b h n d", h=self.num_heads)
        k, v = rearrange(
            self.kv(self.reduced(tokens)), "b n (two h d) -> two b h n d", two=2, h=self.num_heads
        )
        return self.projection(rearrange(self.core(q, k, v), "b h n d -> b n (h d)"))


class _Reduced(nn.Module):
    def __init__(self, width: int, grid_size: tuple[int, int], reduction: int):
        super().__init__()
        layer = nn.Conv2d(width, width, kernel_size=reduction, stride=reduction)
        nn.init.trunc_normal_(layer.weight, std=(width * reduction**2) ** -0.5)
        nn.init.zeros_(layer.bias)
        self.convolution = OnGrid(grid_size, layer)
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Tokens) -> Float[Tensor, "batch keys width"]:
        return self.norm(self.convolution(tokens))
