"""R50+ViT: a residual network in front of a Vision Transformer (ViT paper, section 3.1)."""

from collections.abc import Callable, Sequence
from functools import partial

from torch import nn

from vitbook.layers import ClassTokenHead, ConvolutionalStem, LearnedPosition
from vitbook.models.vit import MICRO_BODY, SIZES, VisionTransformer, make_encoder


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
    make_tokenizer: Callable[..., nn.Module] = ConvolutionalStem,
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
        make_tokenizer: called with ``image_size, channels, width, stage_depths``.
    """
    tokenizer = make_tokenizer(image_size, channels, width, stage_depths)
    return VisionTransformer(
        tokenizer=tokenizer,
        position=LearnedPosition(tokenizer.grid_size, width),
        encoder=make_encoder(width, depth, num_heads, mlp_width),
        head=ClassTokenHead(width, num_classes),
        width=width,
    )


DIGITS_STEM = partial(ConvolutionalStem, stem_width=32, small_pictures=True)

# Everything that `hybrid` takes, by name: the paper's, two for digits, and one for digits on a
# larger canvas, whose tokens are near the paper's stem. The number behind r counts the layers of
# a residual network with these blocks, that behind s the pixels of a step.
HYBRID_MODELS = (
    {
        f"vit_base_r50_s16_{size}": dict(image_size=size, num_classes=1000, **SIZES["base"])
        for size in (224, 384)
    }
    | {
        f"vit_micro_r{2 + 6 * blocks}_s2_8": dict(
            image_size=8,
            channels=1,
            num_classes=10,
            stage_depths=(blocks, blocks),
            make_tokenizer=DIGITS_STEM,
            **MICRO_BODY,
        )
        for blocks in (1, 2)
    }
    | {
        "vit_micro_r5_s4_32": dict(
            image_size=32, channels=1, num_classes=10, stage_depths=(1,), **MICRO_BODY
        )
    }
)
