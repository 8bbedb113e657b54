"""An MLP whose hidden channels look at their neighbours on the grid."""

from torch import nn

from vitbook.layers.encoder import MLP
from vitbook.layers.shapes import Tokens
from vitbook.layers.shrinking import OnGrid


class ConvolutionalMLP(MLP):
    r"""An MLP with a convolution of 3 x 3 tokens before its GELU, each hidden channel alone.

    .. math:: z' = W_2\,\mathrm{GELU}(\mathrm{DWConv}(W_1 z))

    PVT v2 (Wang et al. 2022, section 3). The zeros around the grid tell a token how near the
    border it stands (Islam et al. 2020), so that the model has no other positions.

    Args:
        width, hidden_width: as in :class:`~.encoder.MLP`.
        grid_size: (rows, columns) of the tokens.
    """

    def __init__(self, width: int, hidden_width: int, *, grid_size: tuple[int, int]):
        super().__init__(width, hidden_width)
        layer = nn.Conv2d(hidden_width, hidden_width, 3, padding=1, groups=hidden_width)
        nn.init.trunc_normal_(layer.weight, std=1 / 3)
        nn.init.zeros_(layer.bias)
        self.convolution = OnGrid(grid_size, layer)

    def forward(self, tokens: Tokens) -> Tokens:
        hidden = self.activation(self.convolution(self.expand(tokens)))
        return self.contract(self.dropout(hidden))
