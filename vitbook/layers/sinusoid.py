"""Positions by sinusoids instead of a learned table."""

import torch
from einops import repeat
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.layers.positions import resize_positions
from vitbook.layers.shapes import Tokens


def sinusoid_table(num_positions: int, width: int) -> Float[Tensor, "positions width"]:
    r"""Sines at even and cosines at odd numbers, slower from pair to pair.

    .. math:: p_{i,2j} = \sin(i / 10000^{2j/d}), \qquad p_{i,2j+1} = \cos(i / 10000^{2j/d})

    Vaswani et al. 2017, section 3.5.
    """
    positions = torch.arange(num_positions, dtype=torch.float64)
    pairs = torch.arange(width) // 2
    angles = positions[:, None] / 10000 ** (2 * pairs.double() / width)
    even = torch.arange(width) % 2 == 0
    return torch.where(even, angles.sin(), angles.cos()).float()


class SinusoidPosition(nn.Module):
    """A fixed vector of sines and cosines for each position, added to the token.

    T2T-ViT paper, section 3.2. The positions are counted in one row, and the class token has the
    first of them. The table is a buffer: saved with the model, never learned.
    The arguments are those of :class:`~.positions.LearnedPosition`.
    """

    def __init__(self, grid_size: tuple[int, int], width: int, num_prefix_tokens: int = 1):
        super().__init__()
        self.grid_size = grid_size
        self.num_prefix_tokens = num_prefix_tokens
        self.register_buffer("table", self.sinusoids(grid_size, width, num_prefix_tokens))

    @staticmethod
    def sinusoids(
        grid_size: tuple[int, int], width: int, num_prefix_tokens: int
    ) -> Float[Tensor, "tokens width"]:
        """The vector of every token, prefix first, then row by row."""
        rows, columns = grid_size
        return sinusoid_table(num_prefix_tokens + rows * columns, width)

    def forward(self, tokens: Tokens) -> Tokens:
        return tokens + self.table

    @torch.no_grad()
    def resize(self, grid_size: tuple[int, int], method: str = "bicubic") -> None:
        """Change this table, in place, to one for another grid.

        It is interpolated like a learned one, as T2T-ViT does to fine-tune: the encoder knows the
        old sinusoids, and a new count along the row would give each position another.
        """
        self.table = resize_positions(
            self.table, self.grid_size, grid_size, self.num_prefix_tokens, method
        )
        self.grid_size = grid_size


class SinusoidPosition2D(SinusoidPosition):
    r"""Sinusoids along the columns in one half of the vector, along the rows in the other.

    .. math:: p_{ij} = [s(j);\, s(i)], \qquad s(n) \in \mathbb{R}^{D/2}

    with the rows :math:`s` of :func:`sinusoid_table`. Chen, Xie and He 2021 (MoCo v3) gave them to
    ViT; the numbers are those of MAE's code (He et al. 2022), where all sines of a half come
    before its cosines. "Simple ViT" (Beyer et al. 2022) has slightly other frequencies. As in MAE
    a prefix token gets zeros: it stands nowhere on the grid, and has a vector of its own.

    Args:
        grid_size, num_prefix_tokens: as in :class:`~.positions.LearnedPosition`.
        width: of a token; must be divisible by 4: sine and cosine, twice.
    """

    @staticmethod
    def sinusoids(
        grid_size: tuple[int, int], width: int, num_prefix_tokens: int
    ) -> Float[Tensor, "tokens width"]:
        """The vector of every token, prefix first, then row by row."""
        if width % 4:
            raise ValueError(
                f"width {width} is not divisible by 4: each half has pairs of sine and cosine"
            )
        rows, columns = grid_size
        x = repeat(sinusoid_table(columns, width // 2), "columns d -> (rows columns) d", rows=rows)
        y = repeat(sinusoid_table(rows, width // 2), "rows d -> (rows columns) d", columns=columns)
        return torch.cat([torch.zeros(num_prefix_tokens, width), torch.cat([x, y], dim=1)])
