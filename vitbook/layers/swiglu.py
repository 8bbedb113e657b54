"""An MLP whose hidden layer is gated."""

from torch import nn

from vitbook.layers.encoder import Dropout
from vitbook.layers.initialization import linear
from vitbook.layers.shapes import Tokens


class SwiGLU(nn.Module):
    r"""A hidden layer times a gate of the same width, in the place of a GELU.

    .. math:: \big(\mathrm{SiLU}(zW) \odot zV\big)\,W_2

    Shazeer 2020, "GLU variants improve Transformer", equation 6; here with biases, as in DINOv2's
    giant. Three matrices stand where the MLP has two, so they are two thirds as wide (section 2),
    rounded up to a multiple of 8 as in DINOv2's code: the matrices of an MLP of hidden width 192
    and of its substitute have as many weights.

    Args:
        width: of a token.
        hidden_width: of the MLP whose place it takes.

    Example:
        >>> from vitbook.layers import MLP, SwiGLU
        >>> def weights(mlp): return sum(w.numel() for w in mlp.parameters() if w.ndim == 2)
        >>> SwiGLU(96, 192).contract.in_features, weights(SwiGLU(96, 192)) == weights(MLP(96, 192))
        (128, True)
    """

    def __init__(self, width: int, hidden_width: int):
        super().__init__()
        hidden_width = -(-2 * hidden_width // 24) * 8
        self.expand = linear(width, 2 * hidden_width)
        self.activation = nn.SiLU()
        self.dropout = Dropout()
        self.contract = linear(hidden_width, width)

    def forward(self, tokens: Tokens) -> Tokens:
        gate, value = self.expand(tokens).chunk(2, dim=-1)
        return self.contract(self.dropout(self.activation(gate) * value))
