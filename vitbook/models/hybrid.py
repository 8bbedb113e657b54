"""R50+ViT: a residual network in front of a Vision Transformer (ViT paper, section 3.1)."""

from collections.abc import Sequence

from vitbook.layers import ClassTokenHead, ConvolutionalStem, LearnedPosition
from vitbook.models.vit import SIZES, VisionTransformer, make_encoder


def hybrid(
    *,
    image_size: int | Sequence[int],
    num_classes: int,
    width: int,
    depth: int,
    num_heads: int,
    mlp_width: int,
    channels: int = 3,
    stage_depths: tuple[int, ...] = (3, 4, 9),
) -> VisionTransformer:
    """The Vision Transformer of the paper, but its tokens come from a residual network's map.

    Args:
        image_size: height and width in pixels (one number if they are equal); a multiple of 16
            with three stages.
        num_classes: length of the logits.
        width: of a token.
        depth: number of encoder blocks.
        num_heads: of each attention.
        mlp_width: hidden width of each block's MLP.
        channels: of the picture.
        stage_depths: residual blocks of each stage of the network in front.
    """
    tokenizer = ConvolutionalStem(image_size, channels, width, stage_depths)
    return VisionTransformer(
        tokenizer=tokenizer,
        position=LearnedPosition(tokenizer.grid_size, width),
        encoder=make_encoder(width, depth, num_heads, mlp_width),
        head=ClassTokenHead(width, num_classes),
        width=width,
    )


# Everything that `hybrid` takes, by name.
HYBRID_MODELS = {
    f"vit_base_r50_s16_{size}": dict(image_size=size, num_classes=1000, **SIZES["base"])
    for size in (224, 384)
}
