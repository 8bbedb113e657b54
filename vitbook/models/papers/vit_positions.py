"""How a Vision Transformer hears where its tokens stand (ViT paper, appendix D.4)."""

from collections.abc import Callable, Sequence
from functools import partial

from torch import nn

from vitbook.layers import (
    MLP,
    ClassTokenHead,
    Encoder,
    EncoderBlock,
    LearnedPosition,
    LearnedPosition2D,
    NoPosition,
    OverlappingPatches,
    PatchEmbedding,
    PositionedEncoder,
    RelativePosition,
    RelativePosition2D,
    RelativeSelfAttention,
    SelfAttention,
    SinusoidPosition,
    SinusoidPosition2D,
)
from vitbook.models.papers.vit import (
    CIFAR10,
    DIGITS,
    MICRO_BODY,
    SMALL_BODY,
    VisionTransformer,
    vit,
)

MakePositions = Callable[[tuple[int, int], int, int], list[nn.Module]]


def one_for_each_layer(make_position: Callable[..., nn.Module]) -> MakePositions:
    """As many positions as layers: called with ``grid_size, width, depth``."""
    return lambda grid_size, width, depth: [make_position(grid_size, width) for _ in range(depth)]


def one_for_all_layers(make_position: Callable[..., nn.Module]) -> MakePositions:
    """The same position for every layer: called with ``grid_size, width, depth``."""
    return lambda grid_size, width, depth: [make_position(grid_size, width)] * depth


def vit_every_layer(
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
    make_positions: MakePositions,
) -> VisionTransformer:
    """A Vision Transformer whose tokens are told their places at every layer, not at the stem.

    Args:
        make_positions: called with ``grid_size, width, depth``; one position for each layer.
    """
    tokenizer = PatchEmbedding(image_size, patch_size, channels, width)
    positions = make_positions(tokenizer.grid_size, width, depth)
    blocks = [
        EncoderBlock(SelfAttention(width, num_heads, qkv_bias), MLP(width, mlp_width), width)
        for _ in positions
    ]
    return VisionTransformer(
        tokenizer=tokenizer,
        position=NoPosition(tokenizer.grid_size, width),
        encoder=PositionedEncoder(blocks, positions, width),
        head=ClassTokenHead(width, num_classes),
        width=width,
    )


def relative_vit(
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
    make_positions: MakePositions,
) -> VisionTransformer:
    """A Vision Transformer that knows how far apart two tokens stand, and not where.

    The class token reads nothing but its own row of the last layer, so that the last layer's
    vectors for two patches are never used, unless the layers share them.

    Args:
        make_positions: called with ``grid_size``, the width of a head, and ``depth``; one position
            for each layer. The paper does not say whether its layers share one.
    """
    tokenizer = PatchEmbedding(image_size, patch_size, channels, width)
    positions = make_positions(tokenizer.grid_size, width // num_heads, depth)
    blocks = [
        EncoderBlock(
            RelativeSelfAttention(width, num_heads, qkv_bias, position),
            MLP(width, mlp_width),
            width,
        )
        for position in positions
    ]
    return VisionTransformer(
        tokenizer=tokenizer,
        position=NoPosition(tokenizer.grid_size, width),
        encoder=Encoder(blocks, width),
        head=ClassTokenHead(width, num_classes),
        width=width,
    )


# The small body on CIFAR-10 and the micro body on the digits.
BODIES = {
    "tiny_patch4_32": CIFAR10 | SMALL_BODY,
    "micro_patch2_8": DIGITS | MICRO_BODY,
}


def _of_both_bodies(kinds: dict[str, dict]) -> dict[str, dict]:
    return {
        f"vit_{kind}_{name}": body | part
        for name, body in BODIES.items()
        for kind, part in kinds.items()
    }


# Settings of `vit`.
STEM_POSITION_MODELS = _of_both_bodies(
    {
        "nopos": dict(make_position=NoPosition),
        "pos2d": dict(make_position=LearnedPosition2D),
        "sinusoid": dict(make_position=SinusoidPosition),
        "sinusoid2d": dict(make_position=SinusoidPosition2D),
        "overlap": dict(make_tokenizer=OverlappingPatches),
        "overlap_nopos": dict(make_tokenizer=OverlappingPatches, make_position=NoPosition),
        "overlap_wrapped_nopos": dict(
            make_tokenizer=partial(OverlappingPatches, wrapped=True), make_position=NoPosition
        ),
    }
) | {  # a set of other patches: what is a place worth when a patch shows less, or more?
    f"vit_nopos_micro_patch{patch}_8": DIGITS
    | MICRO_BODY
    | dict(patch_size=patch, make_position=NoPosition)
    for patch in (1, 4)
}

# Settings of `vit_every_layer`.
LAYER_POSITION_MODELS = _of_both_bodies(
    {
        "layerpos": dict(make_positions=one_for_each_layer(LearnedPosition)),
        "layerpos2d": dict(make_positions=one_for_each_layer(LearnedPosition2D)),
        "sharedpos": dict(make_positions=one_for_all_layers(LearnedPosition)),
        "sharedpos2d": dict(make_positions=one_for_all_layers(LearnedPosition2D)),
    }
)

# Settings of `relative_vit`.
RELATIVE_POSITION_MODELS = _of_both_bodies(
    {
        "relpos": dict(make_positions=one_for_each_layer(RelativePosition)),
        "relpos2d": dict(make_positions=one_for_each_layer(RelativePosition2D)),
    }
)

MODELS = {
    vit: STEM_POSITION_MODELS,
    vit_every_layer: LAYER_POSITION_MODELS,
    relative_vit: RELATIVE_POSITION_MODELS,
}
