"""Six designs of convolutional networks on ViT (Yuan et al. 2021, T2T-ViT, section 4.2, table 6).

The authors published none of this code. The paper prints depth, width, parameters and MACs; the
rest is a reconstruction from the parts that their code has for T2T-ViT. It is the setting whose
counts come nearest to both printed figures: `vitbook models --audit` shows them side by side.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from torch import nn

from vitbook.layers import ClassTokenHead, LearnedPosition, PatchEmbedding, SinusoidPosition
from vitbook.layers.cnn_designs import (
    DenseEncoder,
    GhostMLP,
    GhostSelfAttention,
    SqueezedSelfAttention,
)
from vitbook.layers.shapes import Size
from vitbook.models.papers.vit import (
    DIGITS,
    IMAGENET,
    MICRO,
    MICRO_BODY,
    MINI,
    MINI_BODY,
    SMALL_IMAGES,
    Body,
    VisionTransformer,
    vit,
)


def vit_dense(
    *,
    image_size: Size,
    patch_size: Size,
    channels: int = 3,
    num_classes: int,
    width: int,
    depths: Sequence[int],
    growth: int,
    num_heads: int,
    mlp_ratio: int,
    make_position: Callable[..., nn.Module] = SinusoidPosition,
) -> VisionTransformer:
    """ViT-Dense: a token grows with every block and is halved between stages, as in DenseNet.

    Args:
        make_position: called with ``grid_size, width``.
    """
    tokenizer = PatchEmbedding(image_size, patch_size, channels, width)
    encoder = DenseEncoder(width, depths, growth, num_heads, mlp_ratio)
    return VisionTransformer(
        tokenizer=tokenizer,
        position=make_position(tokenizer.grid_size, width),
        encoder=encoder,
        head=ClassTokenHead(encoder.out_width, num_classes),
        width=width,
    )


# Fixed sinusoids, as behind the Tokens-to-Token module: a learned table would count 48.8 M where
# the paper prints 48.6 M.
PATCH_16 = IMAGENET | dict(patch_size=16)
SINUSOID = PATCH_16 | dict(make_position=SinusoidPosition)
# The paper prints width 786 and MLP 2358, thrice that; 768 and 2304 are of its code and its count.
SMALL_BODY = Body(width=768, depth=8, num_heads=8, mlp_width=2304, qkv_bias=False)
SMALL = SINUSOID | dict(body=SMALL_BODY)
SQUEEZED = dict(make_attention=SqueezedSelfAttention)
GHOST = dict(make_attention=GhostSelfAttention, make_mlp=GhostMLP)

# Everything that `vit` takes, by name: the paper's ViT-S/16, and the designs that it is made into.
# Unpublished, and so ours: six heads of 64 channels in DN, sixteen in SW, and SW's MLP of ratio
# 3.5, the one simple ratio that comes near (3 and 4 count 43.8 M and 52.2 M, printed 47.9 M).
CNN_DESIGN_MODELS = {
    "vit_s16_t2t": SMALL,
    "vit_dn": SINUSOID | dict(body=Body(384, 16, num_heads=6, mlp_width=1152, qkv_bias=False)),
    "vit_sw": SINUSOID | dict(body=Body(1024, 4, num_heads=16, mlp_width=3584, qkv_bias=False)),
    "vit_se": SMALL | SQUEEZED,
    "vit_resnext": SINUSOID | dict(body=replace(SMALL_BODY, num_heads=32)),
    "vit_ghost": SMALL | GHOST,
}

# The same swaps on the small bodies, which keep their learned positions. DN has twice the layers at
# half the width and SW half of them at four thirds, as the paper's (the micro's SW at the nearest
# width below), and heads as wide; SW's MLP and the stages of Dense bring the weights near the
# body's. ResNeXt has four times the heads.
MINI_DESIGNS = dict(
    se=SQUEEZED,
    ghost=GHOST,
    dn=dict(body=replace(MINI_BODY, width=48, depth=12, num_heads=3, mlp_width=96)),
    sw=dict(body=replace(MINI_BODY, width=128, depth=3, num_heads=8, mlp_width=320)),
    resnext=dict(body=replace(MINI_BODY, num_heads=24)),
)
# Those behind "equal" take as many multiply-adds as the plain model: a deep and narrow one with
# more layers or less narrow, a shallow one with a wider MLP, and Ghost wider by what it saves, all
# to 3 %. SE and ResNeXt cost the same already, and the mini's SW and Dense do to 5 %.
MINI_EQUAL = dict(
    dn=dict(body=replace(MINI_BODY, width=64, depth=12, num_heads=4, mlp_width=144)),
    ghost=GHOST | dict(body=replace(MINI_BODY, width=112, num_heads=7, mlp_width=224)),
)
MICRO_DESIGNS = dict(
    se=SQUEEZED,
    ghost=GHOST,
    dn=dict(body=Body(width=32, depth=8, num_heads=2, mlp_width=64)),
    sw=dict(body=Body(width=80, depth=2, num_heads=5, mlp_width=240)),
    resnext=dict(body=replace(MICRO_BODY, num_heads=16)),
    dn_equal=dict(body=Body(width=48, depth=7, num_heads=3, mlp_width=96)),
    sw_equal=dict(body=Body(width=80, depth=2, num_heads=5, mlp_width=260)),
    ghost_equal=GHOST | dict(body=replace(MICRO_BODY, width=76, mlp_width=152)),
)
SMALL_DESIGN_MODELS = (
    {
        f"vit_{name}_mini_{patches}": mini | design
        for name, design in MINI_DESIGNS.items()
        for patches, mini in MINI.items()
    }
    | {
        f"vit_{name}_equal_mini_patch4_32": MINI["patch4_32"] | design
        for name, design in MINI_EQUAL.items()
    }
    | {f"vit_{name}_micro_patch2_8": MICRO | design for name, design in MICRO_DESIGNS.items()}
)

# Everything that `vit_dense` takes, by name. The paper prints 19 layers and widths from 128 to 736;
# the growth is that of T2T-ViT-Dense, stages and ratio are found by their counts.
# Stages (4, 1, 7, 7) count the same to the last digit: no count tells the two apart.
DENSE_DESIGN_MODELS = {
    "vit_dense": PATCH_16
    | dict(width=128, depths=(2, 4, 6, 7), growth=64, num_heads=8, mlp_ratio=6),
}
SMALL_DENSE = dict(width=24, growth=12, mlp_ratio=4, make_position=LearnedPosition)
MINI_DENSE = SMALL_DENSE | dict(depths=(2, 4, 3, 5), num_heads=6)
MICRO_DENSE = SMALL_DENSE | dict(depths=(2, 2, 2, 3), num_heads=4)
SMALL_DENSE_DESIGN_MODELS = {
    f"vit_dense_mini_{patches}": images | MINI_DENSE for patches, images in SMALL_IMAGES.items()
} | {"vit_dense_micro_patch2_8": DIGITS | MICRO_DENSE}

MODELS = {
    vit: CNN_DESIGN_MODELS | SMALL_DESIGN_MODELS,
    vit_dense: DENSE_DESIGN_MODELS | SMALL_DENSE_DESIGN_MODELS,
}
