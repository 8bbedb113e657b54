"""Six designs of convolutional networks on ViT (Yuan et al. 2021, T2T-ViT, section 4.2, table 6).

The authors published none of this code. The paper prints depth, width, parameters and MACs; the
rest is a reconstruction from the parts that their code has for T2T-ViT. It is the setting whose
counts come nearest to both printed figures: `vitbook models --audit` shows them side by side.
"""

from collections.abc import Sequence

from vitbook.layers import ClassTokenHead, PatchEmbedding, SinusoidPosition
from vitbook.layers.cnn_designs import (
    DenseEncoder,
    GhostMLP,
    GhostSelfAttention,
    SqueezedSelfAttention,
)
from vitbook.models.vit import VIT_MODELS, VisionTransformer


def vit_dense(
    *,
    image_size: int | Sequence[int],
    patch_size: int | Sequence[int],
    channels: int = 3,
    width: int,
    depths: Sequence[int],
    growth: int,
    num_heads: int,
    mlp_ratio: int,
    num_classes: int,
) -> VisionTransformer:
    """ViT-Dense: a token grows with every block and is halved between stages, as in DenseNet."""
    tokenizer = PatchEmbedding(image_size, patch_size, channels, width)
    encoder = DenseEncoder(width, depths, growth, num_heads, mlp_ratio)
    return VisionTransformer(
        tokenizer=tokenizer,
        position=SinusoidPosition(tokenizer.grid_size, width),
        encoder=encoder,
        head=ClassTokenHead(encoder.out_width, num_classes),
        width=width,
    )


IMAGENET = dict(image_size=224, patch_size=16, num_classes=1000)
# Fixed waves, as behind the Tokens-to-Token module: a learned table would count 48.8 M where the
# paper prints 48.6 M.
BODY = IMAGENET | dict(qkv_bias=False, make_position=SinusoidPosition)
# The paper prints width 786 and MLP 2358, thrice that; 768 and 2304 are of its code and its count.
SMALL = BODY | dict(width=768, depth=8, num_heads=8, mlp_width=2304)

# Everything that `vit` takes, by name: the paper's ViT-S/16, and the designs that it is made into.
# Unpublished, and so ours: six heads of 64 channels in DN, sixteen in SW, and SW's MLP of ratio
# 3.5, the one simple ratio that comes near (3 and 4 count 43.8 M and 52.2 M, printed 47.9 M).
CNN_DESIGN_MODELS = {
    "vit_s16_t2t": SMALL,
    "vit_dn": BODY | dict(width=384, depth=16, num_heads=6, mlp_width=1152),
    "vit_sw": BODY | dict(width=1024, depth=4, num_heads=16, mlp_width=3584),
    "vit_se": SMALL | dict(make_attention=SqueezedSelfAttention),
    "vit_resnext": SMALL | dict(num_heads=32),
    "vit_ghost": SMALL | dict(make_attention=GhostSelfAttention, make_mlp=GhostMLP),
}

# Everything that `vit_dense` takes, by name. The paper prints 19 layers and widths from 128 to 736;
# the growth is that of T2T-ViT-Dense, stages and ratio are found by their counts.
# Stages (4, 1, 7, 7) count the same to the last digit: no count tells the two apart.
DENSE_DESIGN_MODELS = {
    "vit_dense": IMAGENET
    | dict(width=128, depths=(2, 4, 6, 7), growth=64, num_heads=8, mlp_ratio=6),
}

# The same swaps on the digits' model. DN has twice its layers at half its width, as the paper's,
# and heads as wide; ResNeXt four times its heads, as the paper's.
MICRO = VIT_MODELS["vit_micro_patch2_8"]
MICRO_DESIGN_MODELS = {
    "vit_se_micro_patch2_8": MICRO | dict(make_attention=SqueezedSelfAttention),
    "vit_resnext_micro_patch2_8": MICRO | dict(num_heads=16),
    "vit_ghost_micro_patch2_8": MICRO | dict(make_attention=GhostSelfAttention, make_mlp=GhostMLP),
    "vit_dn_micro_patch2_8": MICRO | dict(width=32, depth=8, num_heads=2, mlp_width=64),
}
