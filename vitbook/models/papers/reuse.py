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
from vitbook.models.papers.vit import DIGITS, MICRO_BODY, VisionTransformer


def reuse_vit(
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
    tokenizer = PatchEmbedding(image_size, patch_size, channels, width)
    blocks = [
        ReusingBlock(make_attention(width, num_heads, qkv_bias), MLP(width, mlp_width), width)
        for make_attention in islice(cycle(make_attentions), depth)
    ]
    return VisionTransformer(
        tokenizer=tokenizer,
        position=LearnedPosition(tokenizer.grid_size, width),
        encoder=ReusingEncoder(blocks, width),
        head=ClassTokenHead(width, num_classes),
        width=width,
    )


# Of four layers the second and the fourth take the maps of the layer before, or all but the first
# take the first one's. Each beside its null: the same layers with even attention.
WAYS = {
    f"{kind}_{layers}": (SharingSelfAttention, *[other] * times)
    for kind, other in (("reuse", ReusingSelfAttention), ("even", EvenSelfAttention))
    for layers, times in (("half", 1), ("rest", 3))
}
REUSE_VIT_MODELS = {
    f"vit_{name}_micro_patch2_8": DIGITS | MICRO_BODY | dict(make_attentions=makes)
    for name, makes in WAYS.items()
}

MODELS = {reuse_vit: REUSE_VIT_MODELS}
