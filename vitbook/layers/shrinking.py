"""Fewer tokens on the way: a layer of images applied to tokens on their grid."""

from collections.abc import Sequence

from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.layers.encoder import Encoder
from vitbook.layers.shapes import Tokens
from vitbook.layers.tokens_to_tokens import as_image


class OnGrid(nn.Module):
    """Lay tokens out as an image, apply a layer, and put its pixels in a row again.

    With a convolution whose stride is above 1 the sequence shrinks, as between the stages of a
    convolutional network; PVT does so between its own (Wang et al. 2021, section 3.2).

    Args:
        grid_size: (rows, columns) of the tokens that come in; none is a prefix token.
        layer: images to images, for example a convolution or a pooling.
    """

    def __init__(self, grid_size: Sequence[int], layer: nn.Module):
        super().__init__()
        self.grid_size = tuple(grid_size)
        self.layer = layer

    def forward(self, tokens: Tokens) -> Float[Tensor, "batch fewer out_width"]:
        rows, columns = self.grid_size
        if tokens.shape[1] != rows * columns:
            raise ValueError(
                f"{tokens.shape[1]} tokens came for a grid of {rows}x{columns}: expected "
                f"{rows * columns}, without prefix tokens"
            )
        images = self.layer(as_image(tokens, self.grid_size))
        return rearrange(images, "b d rows columns -> b (rows columns) d")


class ShrinkingEncoder(Encoder):
    """An encoder that gives fewer tokens than it takes, and perhaps wider ones.

    Args:
        blocks: as in :class:`~.encoder.Encoder`; some of them shrink.
        width: of a token that goes out.
    """

    shrinks = True  # no patch has a token of its own behind it
