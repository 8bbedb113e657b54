"""Places told by waves instead of a learned table."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.layers.positions import resize_positions


def sinusoid_table(num_places: int, width: int) -> Float[Tensor, "places width"]:
    r"""Sines at even and cosines at odd numbers, slower from pair to pair.

    .. math:: p_{i,2j} = \sin(i / 10000^{2j/d}), \qquad p_{i,2j+1} = \cos(i / 10000^{2j/d})

    Vaswani et al. 2017, section 3.5.
    """
    places = torch.arange(num_places, dtype=torch.float64)
    pairs = torch.arange(width) // 2
    angles = places[:, None] / 10000 ** (2 * pairs.double() / width)
    even = torch.arange(width) % 2 == 0
    return torch.where(even, angles.sin(), angles.cos()).float()


class SinusoidPosition(nn.Module):
    """A fixed wave pattern for each place, added to the token.

    T2T-ViT paper, section 3.2. The places are counted in one row, and the class token has the
    first of them. The table is a buffer: saved with the model, never learned.

    Args:
        grid_size: (rows, columns) of the patches.
        width: of a token.
        num_prefix_tokens: tokens before the patches that have a place of their own.
    """

    def __init__(self, grid_size: tuple[int, int], width: int, num_prefix_tokens: int = 1):
        super().__init__()
        self.grid_size = grid_size
        self.num_prefix_tokens = num_prefix_tokens
        rows, columns = grid_size
        self.register_buffer("table", sinusoid_table(num_prefix_tokens + rows * columns, width))

    def forward(
        self, tokens: Float[Tensor, "batch tokens width"]
    ) -> Float[Tensor, "batch tokens width"]:
        return tokens + self.table

    @torch.no_grad()
    def resize(self, grid_size: tuple[int, int], method: str = "bicubic") -> None:
        """Change this table, in place, to one for another grid.

        It is interpolated like a learned one, as T2T-ViT does to fine-tune: the encoder knows the
        old waves, and a new count along the row would give each place another.
        """
        self.table = resize_positions(
            self.table, self.grid_size, grid_size, self.num_prefix_tokens, method
        )
        self.grid_size = grid_size
