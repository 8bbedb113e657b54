"""Fewer tokens on the way: a layer of images applied to tokens on their grid."""

from collections.abc import Callable, Sequence

from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.layers.encoder import Encoder
from vitbook.layers.initialization import linear
from vitbook.layers.normalization import layer_norm
from vitbook.layers.shapes import Tokens
from vitbook.layers.tokens_to_tokens import as_image


def halved(grid_size: Sequence[int]) -> tuple[int, int]:
    """(rows, columns) of a grid of which 2 x 2 tokens become one.

    Raises:
        ValueError: a grid with an odd side.
    """
    rows, columns = grid_size
    if rows % 2 or columns % 2:
        raise ValueError(f"a grid of {rows}x{columns} tokens: expected even sides, to be halved")
    return rows // 2, columns // 2


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
        check_grid(tokens, self.grid_size)
        images = self.layer(as_image(tokens, self.grid_size))
        return rearrange(images, "b d rows columns -> b (rows columns) d")


class PatchMerging(nn.Module):
    r"""Lay 2 x 2 tokens side by side, norm the long token, and map it to a new one without a bias.

    .. math:: z' = \mathrm{LN}([z_{00};\, z_{10};\, z_{01};\, z_{11}])\, W

    Swin (Liu et al. 2021, section 3.1). Without the norm it is a convolution of kernel and stride
    2. The four come column by column, as in the authors' code.

    Args:
        grid_size: (rows, columns) of the tokens that come in, both even.
        width: of a token that comes in.
        out_width: of one that goes out: twice as much in the paper.
    """

    def __init__(self, grid_size: Sequence[int], width: int, out_width: int):
        super().__init__()
        halved(grid_size)
        self.grid_size = tuple(grid_size)
        self.norm = nn.LayerNorm(4 * width)
        self.reduction = linear(4 * width, out_width, bias=False)

    def forward(self, tokens: Tokens) -> Float[Tensor, "batch fewer out_width"]:
        check_grid(tokens, self.grid_size)
        rows = self.grid_size[0] // 2
        four = rearrange(tokens, "b (r p c q) d -> b (r c) (q p d)", r=rows, p=2, q=2)
        return self.reduction(self.norm(four))


def check_grid(tokens: Tokens, grid_size: tuple[int, int]) -> None:
    """Refuse tokens that are not those of the grid."""
    rows, columns = grid_size
    if tokens.shape[1] != rows * columns:
        raise ValueError(
            f"{tokens.shape[1]} tokens came for a grid of {rows}x{columns}: expected "
            f"{rows * columns}, without prefix tokens"
        )


class ShrinkingEncoder(Encoder):
    """An encoder that gives fewer tokens than it takes, and perhaps wider ones.

    Args:
        blocks: as in :class:`~.encoder.Encoder`; some of them shrink.
        width: of a token that goes out.
    """

    shrinks = True  # no patch has a token of its own behind it


class OverlappingMerging(nn.Module):
    r"""The norm of the stage that ends, a convolution of 3 x 3 tokens and stride 2, another norm.

    PVT v2 (Wang et al. 2022, section 3): merged windows overlap by a token.

    Args:
        grid_size, width, out_width: as in :class:`PatchMerging`.
    """

    def __init__(self, grid_size: Sequence[int], width: int, out_width: int):
        super().__init__()
        halved(grid_size)
        layer = nn.Conv2d(width, out_width, kernel_size=3, stride=2, padding=1)
        nn.init.trunc_normal_(layer.weight, std=(9 * width) ** -0.5)
        nn.init.zeros_(layer.bias)
        self.last = layer_norm(width)
        self.convolution = OnGrid(grid_size, layer)
        self.norm = nn.LayerNorm(out_width)

    def forward(self, tokens: Tokens) -> Float[Tensor, "batch fewer out_width"]:
        return self.norm(self.convolution(self.last(tokens)))


class ShrinkingBlock(nn.Module):
    """The first block of a stage, behind what makes its map."""

    def __init__(self, shrink: nn.Module, block: nn.Module):
        super().__init__()
        self.shrink = shrink
        self.block = block

    def forward(self, tokens: Tokens) -> Float[Tensor, "batch fewer out_width"]:
        return self.block(self.shrink(tokens))


class PyramidEncoder(ShrinkingEncoder):
    """Stages of blocks; between two stages the map shrinks and its tokens widen.

    All blocks stand in one row, the first of a later stage behind what shrinks.

    Args:
        stages: the blocks of each.
        shrinks: what stands between two stages, one fewer than them; None where the first block
            of a stage shrinks.
        width: of a token that goes out.
        grid_size: (rows, columns) of the tokens that go out.
        make_norm: of the last norm.
    """

    def __init__(
        self,
        stages: Sequence[Sequence[nn.Module]],
        shrinks: Sequence[nn.Module | None],
        width: int,
        grid_size: tuple[int, int],
        make_norm: Callable[[int], nn.Module] = layer_norm,
    ):
        blocks = list(stages[0])
        for shrink, (first, *rest) in zip(shrinks, stages[1:], strict=True):
            blocks += [first if shrink is None else ShrinkingBlock(shrink, first), *rest]
        super().__init__(blocks, width, make_norm)
        self.depths = tuple(map(len, stages))
        self.grid_size = grid_size
