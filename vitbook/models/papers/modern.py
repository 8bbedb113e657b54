"""What became usual in Vision Transformers since 2021: each part alone, then all together.

Registers, rotary positions and a mean of the patches have files of their own.
"""

from functools import partial

from torch import nn

from vitbook.layers import (
    ClassTokenHead,
    EncoderBlock,
    LayerScaleBlock,
    LearnedPosition,
    MeanPoolHead,
    NoPosition,
    PatchDroppingEncoder,
    PatchEmbedding,
    QKNormSelfAttention,
    RMSNorm,
    RotaryPosition2D,
    SwiGLU,
)
from vitbook.layers.shapes import Size
from vitbook.models.papers.registers import NUM_REGISTERS
from vitbook.models.papers.vit import MICRO, MINI, Body, VisionTransformer, make_encoder, vit

SHALLOW_START = 0.1  # of LayerScale: CaiT's for up to 18 blocks


def vit_patch_dropout(
    *,
    image_size: Size,
    patch_size: Size,
    channels: int = 3,
    num_classes: int,
    body: Body,
) -> VisionTransformer:
    """The paper's model, whose encoder sees half of the patches while it trains, all afterwards.

    Liu et al. 2023, "PatchDropout"; FLIP (Li et al. 2023) leaves out half, too.
    """
    tokenizer = PatchEmbedding(image_size, patch_size, channels, body.width)
    return VisionTransformer(
        tokenizer=tokenizer,
        position=LearnedPosition(tokenizer.grid_size, body.width),
        encoder=PatchDroppingEncoder(list(make_encoder(body).blocks), body.width),
        head=ClassTokenHead(body.width, num_classes),
        width=body.width,
    )


def modern_vit(
    *,
    image_size: Size,
    patch_size: Size,
    channels: int = 3,
    num_classes: int,
    body: Body,
) -> VisionTransformer:
    """Registers, rotary positions, QK-norm, SwiGLU, LayerScale, RMSNorm, and no class token.

    Close to DINOv3 (Simeoni et al. 2025), which keeps its class token and its LayerNorms and has
    no QK-norm. Half of the patches cannot be left out here: rotary angles are those of the grid.
    """
    tokenizer = PatchEmbedding(image_size, patch_size, channels, body.width)
    head_width = body.width // body.num_heads
    position = RotaryPosition2D(tokenizer.grid_size, head_width, NUM_REGISTERS)
    model = VisionTransformer(
        tokenizer=tokenizer,
        position=NoPosition(tokenizer.grid_size, body.width, NUM_REGISTERS),
        encoder=make_encoder(
            body,
            make_attention=partial(QKNormSelfAttention, make_norm=RMSNorm, position=position),
            make_mlp=SwiGLU,
            make_block=partial(LayerScaleBlock, make_norm=RMSNorm, start=SHALLOW_START),
            make_norm=RMSNorm,
        ),
        head=MeanPoolHead(body.width, num_classes, NUM_REGISTERS),
        width=body.width,
        num_prefix_tokens=NUM_REGISTERS,
    )
    # Without positions of their own, registers that start alike would stay alike.
    nn.init.trunc_normal_(model.prefix, std=0.02)
    return model


# One part of `vit` in the place of another.
PARTS = {
    "layerscale": dict(make_block=partial(LayerScaleBlock, start=SHALLOW_START)),
    "qknorm": dict(make_attention=QKNormSelfAttention),
    "swiglu": dict(make_mlp=SwiGLU),
    "rmsnorm": dict(make_block=partial(EncoderBlock, make_norm=RMSNorm), make_norm=RMSNorm),
}
BODIES = {"mini_patch4_32": MINI["patch4_32"], "micro_patch2_8": MICRO}

# Settings of `vit`, of `vit_patch_dropout` and of `modern_vit`.
PART_MODELS = {
    f"vit_{kind}_{name}": body | part
    for name, body in BODIES.items()
    for kind, part in PARTS.items()
}
PATCH_DROPOUT_MODELS = {f"vit_patchdropout_{name}": body for name, body in BODIES.items()}
MODERN_MODELS = {f"vit_modern_{name}": body for name, body in BODIES.items()}

MODELS = {vit: PART_MODELS, vit_patch_dropout: PATCH_DROPOUT_MODELS, modern_vit: MODERN_MODELS}
