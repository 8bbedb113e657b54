"""Attention inside blocks of the grid, along its rows and columns, and around each token."""

from typing import Literal

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from vitbook.errors import UnknownNameError
from vitbook.layers.attention.softmax import Mask, SelfAttention
from vitbook.layers.shapes import Size, Tokens
from vitbook.layers.tokenizers import pair


class BlockLocalSelfAttention(SelfAttention):
    """Self-attention among the tokens of one block of the grid; blocks do not see each other.

    Softmax attention whose map is zero between blocks, so that the zeros are never computed:
    linear in the tokens for blocks of one size. Local attention in blocks is Weissenborn et
    al. 2019's ("Scaling autoregressive video models"), named in the ViT paper's section 2 beside
    the Sparse Transformer (Child et al. 2019), whose pattern is another one. Swin (Liu et al.
    2021) shifts its blocks from layer to layer; here they stay, and
    :class:`~.shifted_windows.WindowSelfAttention` moves them.

    The tokens are the patches, row by row, and no others: a prefix token lies in no block. The
    captured map is "(batch blocks) heads tokens_of_a_block tokens_of_a_block", blocks row by row.

    Args:
        width, num_heads, qkv_bias: as in :class:`~.softmax.SelfAttention`.
        grid_size: (rows, columns) of the patches.
        block_size: (rows, columns) of a block, one number if they are equal; must divide the grid.
    """

    def __init__(
        self,
        width: int,
        num_heads: int,
        qkv_bias: bool = True,
        *,
        grid_size: tuple[int, int],
        block_size: Size,
    ):
        super().__init__(width, num_heads, qkv_bias)
        self.grid_size = pair(grid_size, "grid size")
        self.block_size = pair(block_size, "block size")
        (rows, columns), (down, across) = self.grid_size, self.block_size
        if rows % down or columns % across:
            raise ValueError(
                f"a grid of {rows}x{columns} is not divisible into blocks of {down}x{across}: "
                f"use a block with {_divisors(rows)} rows and {_divisors(columns)} columns"
            )
        self.num_blocks = rows // down, columns // across

    def forward(self, tokens: Tokens, mask: Mask | None = None) -> Tokens:
        return self.laid_out(super().forward(self.cut(tokens), mask), self.block_size)

    def cut(self, tokens: Tokens) -> Float[Tensor, "batch_blocks tokens_of_a_block width"]:
        """Tokens of the grid -> those of each block, blocks row by row; others are refused."""
        self.check_tokens(tokens)
        (down, across), (rows, columns) = self.block_size, self.num_blocks
        sizes = dict(r=rows, c=columns, p=down, q=across)
        return rearrange(tokens, "b (r p c q) d -> (b r c) (p q) d", **sizes)

    def laid_out(
        self, tokens: Float[Tensor, "batch_blocks tokens_of_a_block width"], block: tuple[int, int]
    ) -> Tokens:
        """Tokens of each block -> those of the grid, of blocks of ``block`` (rows, columns)."""
        (down, across), (rows, columns) = block, self.num_blocks
        sizes = dict(r=rows, c=columns, p=down, q=across)
        return rearrange(tokens, "(b r c) (p q) d -> b (r p c q) d", **sizes)

    def check_tokens(self, tokens: Tokens) -> None:
        """Refuse tokens that are not those of the grid."""
        rows, columns = self.grid_size
        if tokens.shape[1] != rows * columns:
            raise ValueError(
                f"{tokens.shape[1]} tokens came, but a grid of {rows}x{columns} has "
                f"{rows * columns} patches: blocks, rows and columns hold no prefix token, so "
                "build the model without one and pool the patches (MeanPoolHead)"
            )


class AxialSelfAttention(BlockLocalSelfAttention):
    """Self-attention among the tokens of one row of the grid, or of one column.

    ViT paper, appendix D.6; Ho et al. 2019, "Axial attention in multidimensional transformers". A
    row is a block as wide as the grid and one token high. The captured map is
    "(batch rows) heads columns columns" along the rows, "(batch columns) heads rows rows" along
    the columns.

    Args:
        width, num_heads, qkv_bias: as in :class:`~.softmax.SelfAttention`.
        grid_size: (rows, columns) of the patches.
        along: ``"rows"``: a token sees its row; ``"columns"``: its column.
    """

    def __init__(
        self,
        width: int,
        num_heads: int,
        qkv_bias: bool = True,
        *,
        grid_size: tuple[int, int],
        along: Literal["rows", "columns"],
    ):
        rows, columns = pair(grid_size, "grid size")
        line = {"rows": (1, columns), "columns": (rows, 1)}
        if along not in line:
            raise UnknownNameError("direction", along, line)
        super().__init__(width, num_heads, qkv_bias, grid_size=grid_size, block_size=line[along])


class NeighborhoodSelfAttention(BlockLocalSelfAttention):
    """Self-attention in which each token reads a window around itself, as a convolution does.

    Ramachandran et al. 2019, "Stand-alone self-attention in vision models", section 2.2,
    without its relative positions. Keys and values are gathered for each token: linear in the
    tokens, though each is stored once for every token that reads it. At the edge a window is cut.
    The captured map is "(batch tokens) heads 1 tokens_of_a_window", 0 outside the grid.

    Args:
        width, num_heads, qkv_bias: as in :class:`~.softmax.SelfAttention`.
        grid_size: (rows, columns) of the patches.
        window_size: (rows, columns) of a window, one number if they are equal; odd.
    """

    def __init__(
        self,
        width: int,
        num_heads: int,
        qkv_bias: bool = True,
        *,
        grid_size: tuple[int, int],
        window_size: Size,
    ):
        super().__init__(width, num_heads, qkv_bias, grid_size=grid_size, block_size=grid_size)
        self.window_size = down, across = pair(window_size, "window")
        if down % 2 == 0 or across % 2 == 0:
            raise ValueError(f"a window of {down}x{across} has no middle: expected odd sides")

    def forward(self, tokens: Tokens) -> Tokens:
        self.check_tokens(tokens)
        q, k, v = self.heads(self.qkv(tokens))
        around, inside = self.windows(tokens.device)
        k, v = (rearrange(x[:, :, around], "b h n w d -> (b n) h w d") for x in (k, v))
        q = rearrange(q, "b h n d -> (b n) h 1 d")
        # An exported model takes any batch: einops would write this one's size into the file.
        mask = inside.expand(tokens.shape[0], *inside.shape).flatten(0, 1)
        mixed = self.core(q, k, v, mask)
        return self.joined(rearrange(mixed, "(b n) h 1 d -> b h n d", n=len(around)))

    def windows(
        self, device: torch.device
    ) -> tuple[Int64[Tensor, "tokens window"], Bool[Tensor, "tokens 1 1 window"]]:
        """The tokens of each token's window, and whether they lie inside the grid.

        Made anew each time: what was built without memory has nothing to lose.
        """
        (rows, columns), (down, across) = self.grid_size, self.window_size
        number = torch.arange(rows * columns, device=device)[:, None]
        step = torch.arange(down * across, device=device)
        row = number // columns + step // across - down // 2
        column = number % columns + step % across - across // 2
        inside = (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
        around = row.clamp(0, rows - 1) * columns + column.clamp(0, columns - 1)
        return around, inside[:, None, None]


class AxialBlock(nn.Module):
    """A block along the rows, then a block along the columns, each with its own MLP.

    ViT paper, appendix D.6: it stands where one block of global attention stood, and after it
    every token has heard of every other. Each sees a line and not the grid, but there are two
    MLPs.

    Args:
        rows: an :class:`~.encoder.EncoderBlock` around attention along the rows.
        columns: likewise along the columns.
    """

    def __init__(self, rows: nn.Module, columns: nn.Module):
        super().__init__()
        self.rows = rows
        self.columns = columns

    def forward(self, tokens: Tokens) -> Tokens:
        return self.columns(self.rows(tokens))


def _divisors(side: int) -> str:
    numbers = [str(n) for n in range(1, side + 1) if side % n == 0]
    return " or ".join(numbers)
