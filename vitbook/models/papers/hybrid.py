"""R50+ViT: a residual network in front of a Vision Transformer (ViT paper, section 3.1)."""

from collections.abc import Callable
from functools import partial

from torch import nn

from vitbook.layers import ClassTokenHead, ConvolutionalStem, LearnedPosition
from vitbook.layers.shapes import Size
from vitbook.models.papers.vit import (
    MICRO_BODY,
    MINI_BODY,
    SIZES,
    Body,
    VisionTransformer,
    make_encoder,
)


def hybrid(
    *,
    image_size: Size,
    channels: int = 3,
    num_classes: int,
    body: Body,
    stage_depths: tuple[int, ...] = (3, 4, 9),
    make_tokenizer: Callable[..., nn.Module] = ConvolutionalStem,
) -> VisionTransformer:
    """The Vision Transformer of the paper, but its tokens come from a residual network's map.

    Args:
        image_size: in pixels; a multiple of 16 with three stages.
        stage_depths: residual blocks of each stage of the network in front.
        make_tokenizer: called with ``image_size, channels, width, stage_depths``.
    """
    tokenizer = make_tokenizer(image_size, channels, body.width, stage_depths)
    return VisionTransformer(
        tokenizer=tokenizer,
        position=LearnedPosition(tokenizer.grid_size, body.width),
        encoder=make_encoder(body),
        head=ClassTokenHead(body.width, num_classes),
        width=body.width,
    )


DIGITS_STEM = partial(ConvolutionalStem, stem_width=32, small_images=True)

# The paper's stem at half its width, with stages of two blocks. The stem that keeps every pixel
# would need more stages, and more multiply-adds than the body.
MINI_STEM = partial(ConvolutionalStem, stem_width=32)
MINI_HYBRIDS = {
    "r8_s4_32": dict(image_size=32, num_classes=10, stage_depths=(2,)),
    "r14_s8_64": dict(image_size=64, num_classes=200, stage_depths=(2, 2)),
    "r14_s8_128": dict(image_size=128, num_classes=5, stage_depths=(2, 2)),
}

# Everything that `hybrid` takes, by name: the paper's, three whose tokens step as the mini's
# patches do, two for digits, and one for digits on a larger canvas, whose tokens are near the
# paper's stem. The number behind r counts the layers of a residual network with these blocks,
# that behind s the pixels of a step.
HYBRID_MODELS = (
    {
        f"vit_base_r50_s16_{size}": dict(image_size=size, num_classes=1000, body=SIZES["base"])
        for size in (224, 384)
    }
    | {
        f"vit_mini_{name}": dict(make_tokenizer=MINI_STEM, **numbers, body=MINI_BODY)
        for name, numbers in MINI_HYBRIDS.items()
    }
    | {
        f"vit_micro_r{2 + 6 * blocks}_s2_8": dict(
            image_size=8,
            channels=1,
            num_classes=10,
            stage_depths=(blocks, blocks),
            make_tokenizer=DIGITS_STEM,
            body=MICRO_BODY,
        )
        for blocks in (1, 2)
    }
    | {
        "vit_micro_r5_s4_32": dict(
            image_size=32, channels=1, num_classes=10, stage_depths=(1,), body=MICRO_BODY
        )
    }
)

MODELS = {hybrid: HYBRID_MODELS}
