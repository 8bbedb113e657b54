"""Tokens-to-Token: tokens that are cut out, mixed and merged again, until few are left."""

import math
from collections.abc import Callable, Sequence

import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.layers.attention.performer import PerformerAttention
from vitbook.layers.attention.softmax import Attention, EvenAttention
from vitbook.layers.encoder import MLP
from vitbook.layers.initialization import linear
from vitbook.layers.shapes import Size
from vitbook.layers.tokenizers import check_images, pair

# Kernel, stride and padding of the three soft splits (T2T-ViT paper, section 3, and its code).
SoftSplit = tuple[int, int, int]
SOFT_SPLITS: tuple[SoftSplit, ...] = ((7, 4, 2), (3, 2, 1), (3, 2, 1))


def soft_split(
    images: Float[Tensor, "batch channels height width"], kernel: int, stride: int, padding: int
) -> Float[Tensor, "batch patches patch_width"]:
    """Cut an image into patches that overlap, each laid out as (channels, rows, columns).

    T2T-ViT paper, section 3.1. Beyond the image is zero.
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
        self.norm1 = nn.LayerNorm(inputs)
        self.core = core
        self.projection = linear(width, width)
        self.norm2 = nn.LayerNorm(width)
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


class TokenMean(TokenBlock):
    """The token block with even attention: every token is given the mean of all values.

    A control for the other two: it mixes, and looks at nothing. Its dropout is that of
    :class:`TokenPerformer`, and it has no queries and no keys.
    """

    def __init__(self, inputs: int, width: int):
        super().__init__(inputs, width, EvenAttention(), dropout=0.1)
        self.values = linear(inputs, width)

    def project(self, tokens: Float[Tensor, "batch tokens inputs"]) -> Sequence[Tensor]:
        v = rearrange(self.values(tokens), "b n d -> b 1 n d")
        return v, v, v


class TokenMLP(nn.Module):
    r"""The token block without its attention: each token stays by itself.

    .. math:: z = v, \qquad z' = z + \mathrm{MLP}(\mathrm{LN}(z))

    T2T-ViT paper, section 3.1, less its attention. A control for :class:`TokenMean`, whose dropout
    it has: what differs is the mean of all values.
    """

    def __init__(self, inputs: int, width: int):
        super().__init__()
        self.norm1 = nn.LayerNorm(inputs)
        self.values = linear(inputs, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = MLP(width, width)
        self.dropout = nn.Dropout(0.1)

    def forward(
        self, tokens: Float[Tensor, "batch tokens inputs"]
    ) -> Float[Tensor, "batch tokens token_width"]:
        v = self.values(self.norm1(tokens))
        return v + self.dropout(self.mlp(self.norm2(v)))


class TokensToTokens(nn.Module):
    """Images to tokens in a few soft splits, with a token block between each and the next.

    T2T-ViT paper, section 3.1 and figure 3. Each split merges neighbours that overlap, so that
    edges and textures are seen before the tokens are few. With the paper's three splits a token
    steps 16 pixels. Where its step does not divide the image, the last tokens see less of it
    and more of the zeros around it.

    Args:
        image_size: in pixels, large enough that each split finds a patch.
        width: of a token that goes out.
        make_block: called with ``inputs, token_width`` for each token block:
            :class:`TokenPerformer`, :class:`TokenTransformer`, or a control: :class:`TokenMean`,
            :class:`TokenMLP`, or a linear layer.
        token_width: of a token between the splits.
        soft_splits: kernel, stride and padding of each.
    """

    def __init__(
        self,
        image_size: Size,
        channels: int,
        width: int,
        make_block: Callable[[int, int], nn.Module] = TokenPerformer,
        token_width: int = 64,
        soft_splits: Sequence[SoftSplit] = SOFT_SPLITS,
    ):
        super().__init__()
        self.image_size = pair(image_size, "image size")
        self.channels = channels
        self.soft_splits = tuple(soft_splits)
        self.grids = split_grids(self.image_size, self.soft_splits)
        self.patch_size = math.prod(stride for _, stride, _ in self.soft_splits)
        inputs = channels
        for number, (kernel, _, _) in enumerate(self.soft_splits[:-1], start=1):
            self.add_module(f"block{number}", make_block(inputs * kernel**2, token_width))
            inputs = token_width
        self.projection = linear(inputs * self.soft_splits[-1][0] ** 2, width)

    @property
    def grid_size(self) -> tuple[int, int]:
        """(rows, columns) of the tokens that go out."""
        return self.grids[-1]

    def forward(
        self, images: Float[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch tokens token_width"]:
        check_images(images, self.channels, self.image_size)
        tokens = soft_split(images, *self.soft_splits[0])
        for number, split in enumerate(self.soft_splits[1:], start=1):
            mixed = getattr(self, f"block{number}")(tokens)
            tokens = soft_split(as_image(mixed, self.grids[number - 1]), *split)
        return self.projection(tokens)


def as_image(
    tokens: Float[Tensor, "batch tokens width"], grid_size: tuple[int, int]
) -> Float[Tensor, "batch width rows columns"]:
    """Lay tokens out on their grid again ("re-structurization", T2T-ViT paper, section 3.1)."""
    return rearrange(tokens, "b (rows columns) d -> b d rows columns", rows=grid_size[0])


def split_grids(
    image_size: tuple[int, int], soft_splits: Sequence[SoftSplit] = SOFT_SPLITS
) -> list[tuple[int, int]]:
    """(rows, columns) after each soft split.

    Raises:
        ValueError: no split, or an image that is smaller than a patch with its padding.
    """
    if not soft_splits:
        raise ValueError("no soft split: expected one at least, as (kernel, stride, padding)")
    least = 1
    for kernel, stride, padding in reversed(soft_splits):
        least = max((least - 1) * stride + kernel - 2 * padding, 1)
    if min(image_size) < least:
        raise ValueError(
            f"image {image_size[0]}x{image_size[1]} is too small for soft splits (kernel, stride, "
            f"padding) {tuple(soft_splits)}: use {least} pixels a side at least, or pad"
        )
    sizes, size = [], image_size
    for kernel, stride, padding in soft_splits:
        size = tuple((side + 2 * padding - kernel) // stride + 1 for side in size)
        sizes.append(size)
    return sizes
