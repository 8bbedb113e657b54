"""Vision Transformers whose layers use attention maps again (Bhojanapalli et al. 2021)."""

from collections.abc import Callable, Sequence
from itertools import cycle, islice

from torch import nn

from vitbook.layers import (
    MLP,
    ClassTokenHead,
    EvenSelfAttention,
    LearnedPosition,
    PatchEmbedding,
    ReusingBlock,
    ReusingEncoder,
    ReusingSelfAttention,
    SharingSelfAttention,
)
from vitbook.layers.shapes import Size
from vitbook.models.papers.vit import MICRO, Body, VisionTransformer


def reuse_vit(
    *,
    image_size: Size,
    patch_size: Size,
    channels: int = 3,
    num_classes: int,
    body: Body,
    make_attentions: Sequence[Callable[..., nn.Module]],
) -> VisionTransformer:
    """A Vision Transformer in which some layers take the maps of a layer before them.

    Bhojanapalli et al. 2021, "Leveraging redundancy in attention with Reuse Transformers".

    Args:
        make_attentions: one for each block, and again from the first if there are more blocks;
            called with ``width, num_heads, qkv_bias``. A
            :class:`~vitbook.layers.ReusingSelfAttention` takes the maps of the nearest
            :class:`~vitbook.layers.SharingSelfAttention` before it.

    Raises:
        ValueError: a layer that reuses before any that shares.
    """
    tokenizer = PatchEmbedding(image_size, patch_size, channels, body.width)
    blocks = [
        ReusingBlock(
            make_attention(body.width, body.num_heads, body.qkv_bias),
            MLP(body.width, body.mlp_width),
            body.width,
        )
        for make_attention in islice(cycle(make_attentions), body.depth)
    ]
    return VisionTransformer(
        tokenizer=tokenizer,
        position=LearnedPosition(tokenizer.grid_size, body.width),
        encoder=ReusingEncoder(blocks, body.width),
        head=ClassTokenHead(body.width, num_classes),
        width=body.width,
    )


# Of four layers the second and the fourth take the maps of the layer before, or all but the first
# take the first one's. Each beside its control: the same layers with even attention.
WAYS = {
    f"{kind}_{layers}": (SharingSelfAttention, *[other] * times)
    for kind, other in (("reuse", ReusingSelfAttention), ("even", EvenSelfAttention))
    for layers, times in (("half", 1), ("rest", 3))
}
REUSE_VIT_MODELS = {
    f"vit_{name}_micro_patch2_8": MICRO | dict(make_attentions=makes)
    for name, makes in WAYS.items()
}

MODELS = {reuse_vit: REUSE_VIT_MODELS}
