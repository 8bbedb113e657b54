"""T2T-ViT (Yuan et al. 2021, "Tokens-to-Token ViT: training Vision Transformers from scratch")."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from torch import nn

from vitbook.layers.attention.softmax import SelfAttention
from vitbook.layers.cnn_designs import (
    DenseEncoder,
    GhostMLP,
    GhostSelfAttention,
    SqueezedSelfAttention,
)
from vitbook.layers.encoder import MLP
from vitbook.layers.heads import ClassTokenHead
from vitbook.layers.initialization import linear
from vitbook.layers.shapes import Size
from vitbook.layers.sinusoid import SinusoidPosition
from vitbook.layers.tokens_to_tokens import (
    SoftSplit,
    TokenMean,
    TokenMLP,
    TokenPerformer,
    TokensToTokens,
    TokenTransformer,
)
from vitbook.models.constants import set_norm_eps
from vitbook.models.papers.vit import (
    IMAGENET,
    MICRO_BODY,
    MINI_BODY,
    Body,
    VisionTransformer,
    make_encoder,
)


def t2t_vit(
    *,
    image_size: Size,
    channels: int = 3,
    num_classes: int,
    body: Body,
    make_tokenizer: Callable[..., nn.Module] = TokensToTokens,
    make_attention: Callable[..., nn.Module] = SelfAttention,
    make_mlp: Callable[..., nn.Module] = MLP,
) -> VisionTransformer:
    """A deep and narrow encoder behind the Tokens-to-Token module (figure 4).

    The positions are fixed sinusoids, and queries, keys and values have no bias. Each LayerNorm
    adds 1e-5 to the variance, as in the paper's code (ViT and DeiT: 1e-6).

    Args:
        make_tokenizer: called with ``image_size, channels, width``.
        make_attention, make_mlp: as in :func:`~vitbook.models.papers.vit.make_encoder`.
    """
    tokenizer = make_tokenizer(image_size, channels, body.width)
    model = VisionTransformer(
        tokenizer=tokenizer,
        position=SinusoidPosition(tokenizer.grid_size, body.width),
        encoder=make_encoder(replace(body, qkv_bias=False), make_attention, make_mlp),
        head=ClassTokenHead(body.width, num_classes),
        width=body.width,
    )
    set_norm_eps(model, NORM_EPS)
    return model


def t2t_vit_dense(
    *,
    image_size: Size,
    channels: int = 3,
    num_classes: int,
    width: int,
    depths: Sequence[int],
    growth: int,
    num_heads: int,
    mlp_ratio: int,
    make_tokenizer: Callable[..., nn.Module] = TokensToTokens,
) -> VisionTransformer:
    """T2T-ViT-Dense (section 3.2): a token grows with every block, as in DenseNet.

    Args:
        make_tokenizer: called with ``image_size, channels, width``.
    """
    tokenizer = make_tokenizer(image_size, channels, width)
    encoder = DenseEncoder(width, depths, growth, num_heads, mlp_ratio)
    model = VisionTransformer(
        tokenizer=tokenizer,
        position=SinusoidPosition(tokenizer.grid_size, width),
        encoder=encoder,
        head=ClassTokenHead(encoder.out_width, num_classes),
        width=width,
    )
    set_norm_eps(model, NORM_EPS)
    return model


NORM_EPS = 1e-5
SOFTMAX_TOKENS = dict(make_tokenizer=partial(TokensToTokens, make_block=TokenTransformer))
SIZES = {
    "7": Body(width=256, depth=7, num_heads=4, mlp_width=512),
    "10": Body(width=256, depth=10, num_heads=4, mlp_width=512),
    "12": Body(width=256, depth=12, num_heads=4, mlp_width=512),
    "14": Body(width=384, depth=14, num_heads=6, mlp_width=1152),
    "19": Body(width=448, depth=19, num_heads=7, mlp_width=1344),
    "24": Body(width=512, depth=24, num_heads=8, mlp_width=1536),
}

# Small images have shorter steps. The SL-ViT authors' code leaves 8x8 tokens and T2T-ViT-12's
# body, with softmax attention in the token blocks. It also adds each attention's normed input to
# its output, for the token block's attention, with its shortcut, takes the encoder's name there;
# here the encoder is the paper's. The digits' splits mix 64 tokens and leave 4x4.
STEP_1, STEP_2, STEP_4 = (3, 1, 1), (3, 2, 1), (7, 4, 2)
CIFAR10 = dict(image_size=32, num_classes=10)
TINY_IMAGENET = dict(image_size=64, num_classes=200)
FLOWERS = dict(image_size=128, num_classes=5)
DIGITS = dict(image_size=8, channels=1, num_classes=10)


def small_tokens(
    *soft_splits: SoftSplit,
    token_width: int = 64,
    make_block: Callable[[int, int], nn.Module] = TokenTransformer,
) -> dict:
    """The tokenizer's place in a row of the table, for images of few pixels."""
    return dict(
        make_tokenizer=partial(
            TokensToTokens,
            make_block=make_block,
            token_width=token_width,
            soft_splits=soft_splits,
        )
    )


# The mini's splits leave as many tokens as its patches are.
MINI_SPLITS = {
    "patch4_32": (CIFAR10, (STEP_2, STEP_2)),
    "patch8_64": (TINY_IMAGENET, (STEP_2, STEP_2, STEP_2)),
    "patch8_128": (FLOWERS, (STEP_4, STEP_2)),
}
MINI_TOKENS = CIFAR10 | small_tokens(STEP_2, STEP_2, token_width=24, make_block=TokenPerformer)
MICRO_TOKENS = DIGITS | small_tokens(STEP_1, STEP_2, token_width=16, make_block=TokenPerformer)
# Softmax attention in the token block, and controls: even attention, none, a linear layer.
MICRO_BLOCKS = dict(t=TokenTransformer, even=TokenMean, mlp=TokenMLP, bare=linear)
# T2T-ViT-14's designs on them, in proportion: Wide has 4 layers for 14 at twice the width, Ghost 16
# for 14, ResNeXt 32 heads for 6 (where that divides no width, the nearest that does).
SQUEEZED = dict(make_attention=SqueezedSelfAttention)
GHOST = dict(make_attention=GhostSelfAttention, make_mlp=GhostMLP)
MINI_DESIGNS = dict(
    wide=dict(body=Body(width=192, depth=2, num_heads=12, mlp_width=384)),
    se=dict(body=MINI_BODY) | SQUEEZED,
    resnext=dict(body=replace(MINI_BODY, num_heads=32)),
    ghost=dict(body=replace(MINI_BODY, depth=7)) | GHOST,
)
# Those behind "equal" take as many multiply-adds as the plain micro, to 2 %.
MICRO_DESIGNS = dict(
    wide=dict(body=Body(width=128, depth=1, num_heads=8, mlp_width=256)),
    se=dict(body=MICRO_BODY) | SQUEEZED,
    resnext=dict(body=replace(MICRO_BODY, num_heads=16)),
    ghost=dict(body=replace(MICRO_BODY, depth=5)) | GHOST,
    dn_equal=dict(body=Body(width=48, depth=7, num_heads=3, mlp_width=96)),
    ghost_equal=dict(body=replace(MICRO_BODY, width=76, mlp_width=152)) | GHOST,
)

# Everything that `t2t_vit` takes, by name: the paper's sizes, T2T-ViT-14 with one idea of a
# convolutional network, and those for small images. The paper prints depth 8 for 7, 14 for Wide
# and 14 for Ghost; here are the depths of its code.
T2T_VIT_MODELS = (
    {f"t2t_vit_{size}": IMAGENET | dict(body=body) for size, body in SIZES.items()}
    | {
        f"t2t_vit_t_{size}": IMAGENET | dict(body=SIZES[size]) | SOFTMAX_TOKENS
        for size in ("14", "19", "24")
    }
    | {
        "t2t_vit_14_wide": IMAGENET
        | dict(body=Body(width=768, depth=4, num_heads=12, mlp_width=2304)),
        "t2t_vit_14_resnext": IMAGENET | dict(body=replace(SIZES["14"], num_heads=32)),
        "t2t_vit_14_se": IMAGENET | dict(body=SIZES["14"]) | SQUEEZED,
        "t2t_vit_14_ghost": IMAGENET | dict(body=replace(SIZES["14"], depth=16)) | GHOST,
        "t2t_vit_t_12_patch4_32": CIFAR10 | dict(body=SIZES["12"]) | small_tokens(STEP_2, STEP_2),
        "t2t_vit_t_12_patch8_64": TINY_IMAGENET
        | dict(body=SIZES["12"])
        | small_tokens(STEP_2, STEP_2, STEP_2),
        "t2t_vit_micro_patch2_8": MICRO_TOKENS | dict(body=MICRO_BODY),
    }
    | {
        f"t2t_vit_{name}_micro_patch2_8": DIGITS
        | dict(body=MICRO_BODY)
        | small_tokens(STEP_1, STEP_2, token_width=16, make_block=make_block)
        for name, make_block in MICRO_BLOCKS.items()
    }
    | {
        f"t2t_vit_{kind}mini_{name}": images
        | dict(body=MINI_BODY)
        | small_tokens(*splits, token_width=24, make_block=make_block)
        for kind, make_block in (("", TokenPerformer), ("t_", TokenTransformer))
        for name, (images, splits) in MINI_SPLITS.items()
    }
    | {f"t2t_vit_{name}_mini_patch4_32": MINI_TOKENS | kind for name, kind in MINI_DESIGNS.items()}
    | {f"t2t_vit_{name}_micro_patch2_8": MICRO_TOKENS | d for name, d in MICRO_DESIGNS.items()}
)

# Everything that `t2t_vit_dense` takes, by name. With fewer layers a token must grow faster for as
# many weights as its body has.
SMALL_DENSE = dict(width=32, growth=32, mlp_ratio=2)
T2T_VIT_DENSE_MODELS = {
    "t2t_vit_14_dense": IMAGENET
    | dict(width=128, depths=(3, 6, 6, 4), growth=64, num_heads=8, mlp_ratio=2),
    "t2t_vit_dense_mini_patch4_32": MINI_TOKENS
    | SMALL_DENSE
    | dict(depths=(1, 3, 3, 1), num_heads=8),
    "t2t_vit_dense_micro_patch2_8": MICRO_TOKENS
    | SMALL_DENSE
    | dict(depths=(1, 2, 1, 2), num_heads=4),
}

MODELS = {t2t_vit: T2T_VIT_MODELS, t2t_vit_dense: T2T_VIT_DENSE_MODELS}
