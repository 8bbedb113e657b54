"""Tokens-to-Token: tokens that are cut out, mixed and merged again, until few are left."""

from collections.abc import Callable, Sequence

import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.layers.attention import Attention
from vitbook.layers.encoder import MLP
from vitbook.layers.initialization import linear
from vitbook.layers.performer import PerformerAttention
from vitbook.layers.tokenizers import check_images, pair

# Kernel, stride and padding of the three soft splits (T2T-ViT paper, section 3, and its code).
SOFT_SPLITS = ((7, 4, 2), (3, 2, 1), (3, 2, 1))


def soft_split(
    images: Float[Tensor, "batch channels height width"], kernel: int, stride: int, padding: int
) -> Float[Tensor, "batch patches patch_width"]:
    """Cut a picture into patches that overlap, each laid out as (channels, rows, columns).

    T2T-ViT paper, section 3.1. Beyond the picture is zero.
    """
    patches = F.unfold(images, kernel, stride=stride, padding=padding)
    return rearrange(patches, "b d n -> b n d")


class TokenBlock(nn.Module):
    r"""A Transformer layer that makes its tokens narrower.

    .. math::
        z = v + \mathrm{attention}(q, k, v)\,U, \qquad z' = z + \mathrm{MLP}(\mathrm{LN}(z))

    T2T-ViT paper, section 3.1, and its code: one head. The input is wider than the
    output, so that the shortcut cannot carry the input; it carries the values :math:`v`. A
    subclass says in :meth:`project` where queries, keys and values come from.

    Args:
        inputs: width of a token that comes in.
        width: of a token that goes out, and of the MLP's hidden layer.
        core: the attention, with no parameters.
        dropout: share of each branch's output set to zero while training.
    """

    def __init__(self, inputs: int, width: int, core: nn.Module, dropout: float):
        super().__init__()
        self.norm1 = nn.LayerNorm(inputs, eps=1e-6)
        self.core = core
        self.projection = linear(width, width)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = MLP(width, width)
        self.dropout = nn.Dropout(dropout)

    def project(self, tokens: Float[Tensor, "batch tokens inputs"]) -> Sequence[Tensor]:
        """Queries, keys and values, each "batch 1 tokens width"."""
        raise NotImplementedError

    def forward(
        self, tokens: Float[Tensor, "batch tokens inputs"]
    ) -> Float[Tensor, "batch tokens token_width"]:
        q, k, v = self.project(self.norm1(tokens))
        mixed = v + self.dropout(self.projection(self.core(q, k, v)))
        mixed = rearrange(mixed, "b 1 n d -> b n d")
        return mixed + self.dropout(self.mlp(self.norm2(mixed)))


class TokenPerformer(TokenBlock):
    """The token block with Performer attention: half as many random features as its width.

    As in T2T-ViT's code the projection has a bias and its output is laid out as (k, q, v).
    """

    def __init__(self, inputs: int, width: int):
        super().__init__(inputs, width, PerformerAttention(width, width // 2), dropout=0.1)
        self.kqv = linear(inputs, 3 * width)

    def project(self, tokens: Float[Tensor, "batch tokens inputs"]) -> Sequence[Tensor]:
        k, q, v = rearrange(self.kqv(tokens), "b n (three d) -> three b 1 n d", three=3)
        return q, k, v


class TokenTransformer(TokenBlock):
    """The token block with softmax attention, quadratic in the tokens (T2T-ViT_t).

    As in T2T-ViT's code the projection has no bias, and the scores are divided by the root of the
    *incoming* width.
    """

    def __init__(self, inputs: int, width: int):
        super().__init__(inputs, width, Attention(), dropout=0.0)
        self.qkv = linear(inputs, 3 * width, bias=False)
        # The kernel divides by the root of the outgoing width: taken back here.
        self.temperature = (width / inputs) ** 0.5

    def project(self, tokens: Float[Tensor, "batch tokens inputs"]) -> Sequence[Tensor]:
        q, k, v = rearrange(self.qkv(tokens), "b n (three d) -> three b 1 n d", three=3)
        return q * self.temperature, k, v


class TokensToTokens(nn.Module):
    """Pictures to tokens in three soft splits, with a token block after the first and second.

    T2T-ViT paper, section 3.1 and figure 3. Each split merges neighbours that overlap, so that
    edges and textures are seen before the tokens are few. A token steps 16 pixels. Where 16 does
    not divide the picture, the last tokens see less of it and more of the zeros around it.

    Args:
        image_size: height and width in pixels (one number if they are equal), 3 at least.
        channels: of the picture, 3 for colour.
        width: of a token that goes out.
        make_block: called with ``inputs, token_width`` for each of the two token blocks:
            :class:`TokenPerformer` or :class:`TokenTransformer`.
        token_width: of a token between the splits.
    """

    patch_size = 16

    def __init__(
        self,
        image_size: int | Sequence[int],
        channels: int,
        width: int,
        make_block: Callable[[int, int], nn.Module] = TokenPerformer,
        token_width: int = 64,
    ):
        super().__init__()
        self.image_size = pair(image_size, "image size")
        self.channels = channels
        self.grids = split_grids(self.image_size)
        (first, _, _), (second, _, _), (third, _, _) = SOFT_SPLITS
        self.block1 = make_block(channels * first**2, token_width)
        self.block2 = make_block(token_width * second**2, token_width)
        self.projection = linear(token_width * third**2, width)

    @property
    def grid_size(self) -> tuple[int, int]:
        """(rows, columns) of the tokens that go out."""
        return self.grids[-1]

    def forward(
        self, images: Float[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch tokens token_width"]:
        check_images(images, self.channels, self.image_size)
        first, second, third = SOFT_SPLITS
        tokens = self.block1(soft_split(images, *first))
        tokens = self.block2(soft_split(as_image(tokens, self.grids[0]), *second))
        return self.projection(soft_split(as_image(tokens, self.grids[1]), *third))


def as_image(
    tokens: Float[Tensor, "batch tokens width"], grid_size: tuple[int, int]
) -> Float[Tensor, "batch width rows columns"]:
    """Lay tokens out on their grid again ("re-structurization", T2T-ViT paper, section 3.1)."""
    return rearrange(tokens, "b (rows columns) d -> b d rows columns", rows=grid_size[0])


def split_grids(image_size: tuple[int, int]) -> list[tuple[int, int]]:
    """(rows, columns) after each soft split.

    Raises:
        ValueError: the picture is smaller than the first patch with its padding.
    """
    if min(image_size) < 3:
        raise ValueError(
            f"image {image_size[0]}x{image_size[1]} is too small for the first soft split, "
            "7x7 with 2 pixels of padding: use 3 pixels a side at least, or pad"
        )
    sizes, size = [], image_size
    for kernel, stride, padding in SOFT_SPLITS:
        size = tuple((side + 2 * padding - kernel) // stride + 1 for side in size)
        sizes.append(size)
    return sizes
