"""Attention whose queries are pooled, and the block around it: the map shrinks inside."""

from einops import reduce
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.layers.attention.blocks import BlockLocalSelfAttention
from vitbook.layers.encoder import EncoderBlock
from vitbook.layers.initialization import linear
from vitbook.layers.normalization import layer_norm
from vitbook.layers.shapes import Size, Tokens
from vitbook.layers.shrinking import halved

FOUR = dict(y=2, x=2)  # tokens that become one


class QueryPoolingAttention(BlockLocalSelfAttention):
    r"""Attention inside blocks of the grid whose queries are the maxima of 2 x 2 tokens.

    .. math:: \mathrm{softmax}(\mathrm{max}_{2\times2}(q)\,k^\top/\sqrt{d})\,v

    Hiera (Ryali et al. 2023, section 3.2), after MViT (Fan et al. 2021). A quarter of the tokens
    go out, and keys and values are those of all that came. The captured map is "(batch blocks)
    heads tokens_of_a_block/4 tokens_of_a_block".

    Args:
        width, num_heads, qkv_bias: as in :class:`~.softmax.SelfAttention`; the heads are those of
            ``out_width``.
        out_width: of a token that goes out.
        grid_size: (rows, columns) of the tokens that come in.
        block_size: (rows, columns) of a block of them, both even.
    """

    def __init__(
        self,
        width: int,
        num_heads: int,
        qkv_bias: bool = True,
        *,
        out_width: int,
        grid_size: tuple[int, int],
        block_size: Size,
    ):
        super().__init__(out_width, num_heads, qkv_bias, grid_size=grid_size, block_size=block_size)
        halved(self.block_size)
        self.qkv = linear(width, 3 * out_width, bias=qkv_bias)

    def forward(self, tokens: Tokens) -> Float[Tensor, "batch fewer out_width"]:
        q, k, v = self.heads(self.qkv(self.cut(tokens)))
        fewer = halved(self.block_size)
        q = reduce(q, "b h (p y q x) d -> b h (p q) d", "max", p=fewer[0], **FOUR)
        return self.laid_out(self.joined(self.core(q, k, v)), fewer)


class QueryPoolingBlock(EncoderBlock):
    r"""The first block of a stage of Hiera: a quarter of the tokens go out, and they are wider.

    .. math:: z' = \mathrm{max}_{2\times2}(\mathrm{LN}(z)\,W) + \mathrm{MSA}(\mathrm{LN}(z)),
              \qquad z'' = \mathrm{MLP}(\mathrm{LN}(z')) + z'

    Its shortcut is a linear layer of the normed tokens, and their maxima (the authors' code).

    Args:
        attention: gives a quarter of the tokens, of ``out_width``.
        mlp: of that width.
        width: of a token that comes in.
        out_width: of one that goes out.
    """

    def __init__(self, attention: nn.Module, mlp: nn.Module, width: int, out_width: int):
        super().__init__(attention, mlp, out_width)
        self.norm1 = layer_norm(width)
        self.widen = linear(width, out_width)

    def forward(self, tokens: Tokens) -> Float[Tensor, "batch fewer out_width"]:
        self.attention.check_tokens(tokens)
        normed, rows = self.norm1(tokens), self.attention.grid_size[0] // 2
        kept = reduce(self.widen(normed), "b (p y q x) d -> b (p q) d", "max", p=rows, **FOUR)
        tokens = kept + self.drop_path(self.dropout(self.attention(normed)))
        return tokens + self.drop_path(self.dropout(self.mlp(self.norm2(tokens))))
