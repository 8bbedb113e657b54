"""Attention inside windows of the grid that move from layer to layer."""

import torch
from einops import rearrange
from jaxtyping import Bool
from torch import Tensor

from vitbook.layers.attention.blocks import BlockLocalSelfAttention
from vitbook.layers.attention.relative import RelativePositionBias
from vitbook.layers.shapes import Size, Tokens
from vitbook.layers.tokenizers import pair


class WindowSelfAttention(BlockLocalSelfAttention):
    r"""Self-attention inside windows, which stand where the grid says, or are shifted.

    .. math:: \mathrm{softmax}(qk^\top/\sqrt{d} + B + M)\,v, \qquad
              M_{ij} = -\infty \text{ unless } i, j \text{ were neighbours before the roll}

    Swin (Liu et al. 2021, section 3.2, figure 4). To shift the windows the grid is rolled up and to
    the left, so that there are as many windows as before. What leaves at the top comes in at the
    bottom, next to tokens that are far from it in the image: those pairs are masked. ``B`` is
    :class:`~.relative.RelativePositionBias`. The captured map is
    "(batch windows) heads tokens_of_a_window tokens_of_a_window", the windows of the rolled grid
    row by row; masked pairs are 0.

    Args:
        width, num_heads, qkv_bias: as in :class:`~.softmax.SelfAttention`.
        grid_size: (rows, columns) of the patches.
        window_size: (rows, columns) of a window, one number if they are equal; must divide the
            grid.
        shift: rows and columns by which the windows move down and to the right, fewer than a
            window has; half of one in the paper.
    """

    def __init__(
        self,
        width: int,
        num_heads: int,
        qkv_bias: bool = True,
        *,
        grid_size: tuple[int, int],
        window_size: Size,
        shift: tuple[int, int] = (0, 0),
    ):
        super().__init__(
            width, num_heads, qkv_bias, grid_size=grid_size, block_size=pair(window_size, "window")
        )
        if any(not 0 <= s < side for s, side in zip(shift, self.block_size, strict=True)):
            raise ValueError(
                f"windows of {self.block_size[0]}x{self.block_size[1]} shifted by {tuple(shift)}: "
                "expected less than a window, at least 0"
            )
        self.shift = tuple(shift)
        self.bias = RelativePositionBias(self.block_size, num_heads)
        self.register_buffer("neighbours", self._neighbours(), persistent=False)

    def forward(self, tokens: Tokens) -> Tokens:
        bias = self.bias()
        if not any(self.shift):
            return super().forward(tokens, bias)
        self.check_tokens(tokens)
        masked = bias.masked_fill(~self.neighbours, float("-inf"))
        # An exported model takes any batch: einops would write this one's size into the file.
        mask = masked.expand(tokens.shape[0], *masked.shape).flatten(0, 1)
        down, across = self.shift
        mixed = super().forward(self._rolled(tokens, -down, -across), mask)
        return self._rolled(mixed, down, across)

    def _rolled(self, tokens: Tokens, down: int, across: int) -> Tokens:
        grid = rearrange(tokens, "b (r c) d -> b r c d", r=self.grid_size[0])
        return rearrange(grid.roll((down, across), (1, 2)), "b r c d -> b (r c) d")

    def _neighbours(self) -> Bool[Tensor, "windows 1 tokens tokens"]:
        """Whether two tokens of a window of the rolled grid lie on the same side of its seams."""
        down, across = self.block_size
        came_round = [
            torch.arange(side) >= side - shift
            for side, shift in zip(self.grid_size, self.shift, strict=True)
        ]
        region = 2 * came_round[0][:, None].long() + came_round[1].long()
        windows = rearrange(region, "(r p) (c q) -> (r c) 1 (p q)", p=down, q=across)
        return windows[..., :, None] == windows[..., None, :]
