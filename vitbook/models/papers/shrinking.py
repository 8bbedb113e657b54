"""Vision Transformers whose sequence shrinks on the way, as a convolutional network's images do."""

from collections import OrderedDict
from collections.abc import Sequence

from torch import nn

from vitbook.errors import UnknownNameError
from vitbook.layers import (
    LearnedPosition,
    OnGrid,
    PatchEmbedding,
    SequenceProjection,
    ShrinkingEncoder,
)
from vitbook.models.papers.mean_pool import of_patches_alone
from vitbook.models.papers.vit import DIGITS, MICRO_BODY, VisionTransformer, make_encoder

WAYS = ("linear", "convolution", "mean")


def shrinking_vit(
    *,
    image_size: int | Sequence[int],
    patch_size: int | Sequence[int],
    channels: int = 3,
    width: int,
    depth: int,
    num_heads: int,
    mlp_width: int,
    num_classes: int,
    qkv_bias: bool = True,
    by: str,
    widening: int = 1,
    tells_places: bool = False,
) -> VisionTransformer:
    """A Vision Transformer that keeps one token of four after the first half of its blocks.

    It has no class token, and the mean of its last tokens is classified.

    Args:
        by: ``"linear"``, one learned mixture of all tokens for each that is kept, as Linformer
            mixes its keys; ``"convolution"``, of 2 x 2 tokens, kernel and stride 2; ``"mean"`` of
            2 x 2 tokens, in which nothing is learned.
        widening: factor of the tokens' and MLPs' width in the second half; above 1 it takes a
            convolution, and the model is a pyramid (Wang et al. 2021, PVT).
        tells_places: whether learned positions are added again to the tokens that are kept.

    Raises:
        UnknownNameError: another ``by``.
        ValueError: a grid with an odd side.
    """
    if by not in WAYS:
        raise UnknownNameError("way to shrink", by, WAYS)
    tokenizer = PatchEmbedding(image_size, patch_size, channels, width)
    rows, columns = grid = tokenizer.grid_size
    if rows % 2 or columns % 2:
        raise ValueError(f"a grid of {rows}x{columns} tokens: expected even sides, to be halved")
    wide = width * widening
    if by == "linear":
        shrink = SequenceProjection(rows * columns, rows * columns // 4)
    elif by == "convolution":
        shrink = nn.Conv2d(width, wide, kernel_size=2, stride=2)
        # No shortcut leads around it: what goes out is as long as what comes in.
        nn.init.trunc_normal_(shrink.weight, std=(4 * width) ** -0.5)
        nn.init.zeros_(shrink.bias)
        shrink = OnGrid(grid, shrink)
    else:
        shrink = OnGrid(grid, nn.AvgPool2d(2))
    if tells_places:
        places = LearnedPosition((rows // 2, columns // 2), wide, num_prefix_tokens=0)
        # By its name it is a table of positions, which does not decay.
        shrink = nn.Sequential(OrderedDict(shrink=shrink, position=places))
    early = make_encoder(width, depth // 2, num_heads, mlp_width, qkv_bias).blocks
    late = make_encoder(wide, depth - depth // 2, num_heads, mlp_width * widening, qkv_bias).blocks
    encoder = ShrinkingEncoder([*early, nn.Sequential(shrink, late[0]), *late[1:]], wide)
    return of_patches_alone(tokenizer, encoder, width, num_classes, out_width=wide)


# One pixel a token: 64 tokens, then 16. The pyramid's widths make its multiply-adds those of the
# others.
PIXELS = DIGITS | MICRO_BODY | dict(patch_size=1)
PYRAMID = dict(by="convolution", widening=2, width=52, mlp_width=96)
SHRINKING_VIT_MODELS = {
    "shrinking_vit_linear_micro_patch1_8": PIXELS | dict(by="linear"),
    "shrinking_vit_placed_micro_patch1_8": PIXELS | dict(by="linear", tells_places=True),
    "shrinking_vit_conv_micro_patch1_8": PIXELS | dict(by="convolution"),
    "shrinking_vit_mean_micro_patch1_8": PIXELS | dict(by="mean"),
    "shrinking_vit_pyramid_micro_patch1_8": PIXELS | PYRAMID,
}

MODELS = {shrinking_vit: SHRINKING_VIT_MODELS}
