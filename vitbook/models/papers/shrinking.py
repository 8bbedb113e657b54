"""Vision Transformers whose sequence shrinks on the way, as a convolutional network's images do."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace

from torch import nn

from vitbook.layers import (
    LearnedPosition,
    OnGrid,
    PatchEmbedding,
    SequenceProjection,
    ShrinkingEncoder,
)
from vitbook.layers.shapes import Size
from vitbook.layers.shrinking import halved
from vitbook.models.papers.mean_pool import of_patches_alone
from vitbook.models.papers.vit import (
    MICRO_BODY,
    MICRO_PIXELS,
    Body,
    VisionTransformer,
    make_encoder,
)


def by_mixing(grid_size: tuple[int, int], width: int, out_width: int) -> nn.Module:
    """One learned mixture of all tokens for each that is kept, as Linformer mixes its keys."""
    rows, columns = grid_size
    return SequenceProjection(rows * columns, rows * columns // 4)


def by_convolution(grid_size: tuple[int, int], width: int, out_width: int) -> nn.Module:
    """A convolution of 2 x 2 tokens, kernel and stride 2; it may widen them."""
    layer = nn.Conv2d(width, out_width, kernel_size=2, stride=2)
    # No shortcut leads around it: what goes out is as long as what comes in.
    nn.init.trunc_normal_(layer.weight, std=(4 * width) ** -0.5)
    nn.init.zeros_(layer.bias)
    return OnGrid(grid_size, layer)


def by_averaging(grid_size: tuple[int, int], width: int, out_width: int) -> nn.Module:
    """The mean of 2 x 2 tokens, in which nothing is learned."""
    return OnGrid(grid_size, nn.AvgPool2d(2))


def shrinking_vit(
    *,
    image_size: Size,
    patch_size: Size,
    channels: int = 3,
    num_classes: int,
    body: Body,
    make_shrink: Callable[..., nn.Module],
    widening: int = 1,
    tells_places: bool = False,
) -> VisionTransformer:
    """A Vision Transformer that keeps one token of four after the first half of its blocks.

    It has no class token, and the mean of its last tokens is classified.

    Args:
        make_shrink: called with ``grid_size, width, out_width``: :func:`by_mixing`,
            :func:`by_convolution` or :func:`by_averaging`.
        widening: factor of the tokens' and MLPs' width in the second half; above 1 it takes a
            convolution, and the model is a pyramid (Wang et al. 2021, PVT).
        tells_places: whether learned positions are added again to the tokens that are kept.

    Raises:
        ValueError: a grid with an odd side.
    """
    tokenizer = PatchEmbedding(image_size, patch_size, channels, body.width)
    smaller = halved(tokenizer.grid_size)
    half, wide = body.depth // 2, body.width * widening
    shrink = make_shrink(tokenizer.grid_size, body.width, wide)
    if tells_places:
        positions = LearnedPosition(smaller, wide, num_prefix_tokens=0)
        # By its name it is a table of positions, which does not decay.
        shrink = nn.Sequential(OrderedDict(shrink=shrink, position=positions))
    early = make_encoder(replace(body, depth=half)).blocks
    late = make_encoder(
        replace(body, width=wide, depth=body.depth - half, mlp_width=body.mlp_width * widening)
    ).blocks
    encoder = ShrinkingEncoder([*early, nn.Sequential(shrink, late[0]), *late[1:]], wide)
    return of_patches_alone(tokenizer, encoder, body.width, num_classes, out_width=wide)


# One pixel a token: 64 tokens, then 16. The pyramid's widths make its multiply-adds those of the
# others.
MIXING, CONVOLUTION = dict(make_shrink=by_mixing), dict(make_shrink=by_convolution)
PYRAMID = CONVOLUTION | dict(widening=2, body=replace(MICRO_BODY, width=52, mlp_width=96))
SHRINKING_VIT_MODELS = {
    "shrinking_vit_linear_micro_patch1_8": MICRO_PIXELS | MIXING,
    "shrinking_vit_placed_micro_patch1_8": MICRO_PIXELS | MIXING | dict(tells_places=True),
    "shrinking_vit_conv_micro_patch1_8": MICRO_PIXELS | CONVOLUTION,
    "shrinking_vit_mean_micro_patch1_8": MICRO_PIXELS | dict(make_shrink=by_averaging),
    "shrinking_vit_pyramid_micro_patch1_8": MICRO_PIXELS | PYRAMID,
}

MODELS = {shrinking_vit: SHRINKING_VIT_MODELS}
