"""How a Vision Transformer hears where its tokens stand (ViT paper, appendix D.4)."""

from collections.abc import Callable
from functools import partial

from torch import nn

from vitbook.layers import (
    ClassTokenHead,
    LearnedPosition,
    LearnedPosition2D,
    NoPosition,
    OverlappingPatches,
    PatchEmbedding,
    PositionedEncoder,
    RelativePosition,
    RelativePosition2D,
    RelativeSelfAttention,
    RotaryPosition2D,
    RotarySelfAttention,
    SinusoidPosition,
    SinusoidPosition2D,
)
from vitbook.layers.shapes import Size
from vitbook.models.papers.vit import (
    MICRO,
    MICRO_PIXELS,
    MINI,
    NANO,
    TINY,
    Body,
    VisionTransformer,
    make_encoder,
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
    image_size: Size,
    patch_size: Size,
    channels: int = 3,
    num_classes: int,
    body: Body,
    make_positions: MakePositions,
) -> VisionTransformer:
    """A Vision Transformer whose tokens are told their positions at every layer, not at the stem.

    Args:
        make_positions: called with ``grid_size, width, depth``; one position for each layer.
    """
    tokenizer = PatchEmbedding(image_size, patch_size, channels, body.width)
    positions = make_positions(tokenizer.grid_size, body.width, body.depth)
    return VisionTransformer(
        tokenizer=tokenizer,
        position=NoPosition(tokenizer.grid_size, body.width),
        encoder=PositionedEncoder(list(make_encoder(body).blocks), positions, body.width),
        head=ClassTokenHead(body.width, num_classes),
        width=body.width,
    )


def relative_vit(
    *,
    image_size: Size,
    patch_size: Size,
    channels: int = 3,
    num_classes: int,
    body: Body,
    make_positions: MakePositions,
    make_attention: Callable[..., nn.Module] = RelativeSelfAttention,
) -> VisionTransformer:
    """A Vision Transformer that knows how far apart two tokens stand, and not where.

    The class token reads nothing but its own row of the last layer, so that the last layer's
    vectors for two patches are never used, unless the layers share them.

    Args:
        make_positions: called with ``grid_size``, the width of a head, and ``depth``; one position
            for each layer. The paper does not say whether its layers share one.
        make_attention: called for each block with ``width, num_heads, qkv_bias, position``.
    """
    tokenizer = PatchEmbedding(image_size, patch_size, channels, body.width)
    positions = iter(make_positions(tokenizer.grid_size, body.width // body.num_heads, body.depth))

    return VisionTransformer(
        tokenizer=tokenizer,
        position=NoPosition(tokenizer.grid_size, body.width),
        encoder=make_encoder(body, lambda *sizes: make_attention(*sizes, next(positions))),
        head=ClassTokenHead(body.width, num_classes),
        width=body.width,
    )


# The small body on CIFAR-10 and the micro body on the digits.
BODIES = {"tiny_patch4_32": TINY["patch4_32"], "micro_patch2_8": MICRO}


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
) | {  # a set of other patches: what is a position worth when a patch shows less, or more?
    f"vit_nopos_micro_patch{patch}_8": MICRO | dict(patch_size=patch, make_position=NoPosition)
    for patch in (1, 4)
}
STEM_POSITION_MODELS |= {
    "vit_pos2d_micro_patch1_8": MICRO_PIXELS | dict(make_position=LearnedPosition2D),
    "vit_sinusoid2d_micro_patch1_8": MICRO_PIXELS | dict(make_position=SinusoidPosition2D),
}
STEM_POSITION_MODELS |= {
    "vit_nopos_nano_patch2_8": NANO | dict(make_position=NoPosition),
    "vit_overlap_mini_patch4_32": MINI["patch4_32"] | dict(make_tokenizer=OverlappingPatches),
}

STEM_POSITION_MODELS |= {
    f"vit_{kind}_mini_patch4_32": MINI["patch4_32"] | dict(make_position=position)
    for kind, position in (
        ("nopos", NoPosition),
        ("pos2d", LearnedPosition2D),
        ("sinusoid2d", SinusoidPosition2D),
    )
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
ROTARY = dict(
    make_positions=one_for_all_layers(RotaryPosition2D), make_attention=RotarySelfAttention
)
RELATIVE_POSITION_MODELS = _of_both_bodies(
    {
        "relpos": dict(make_positions=one_for_each_layer(RelativePosition)),
        "relpos2d": dict(make_positions=one_for_each_layer(RelativePosition2D)),
        "rope": ROTARY,
    }
) | {
    "vit_relpos2d_micro_patch1_8": MICRO_PIXELS
    | dict(make_positions=one_for_each_layer(RelativePosition2D)),
    "vit_rope_micro_patch1_8": MICRO_PIXELS | ROTARY,
    "vit_relpos2d_mini_patch4_32": MINI["patch4_32"]
    | dict(make_positions=one_for_each_layer(RelativePosition2D)),
    "vit_rope_mini_patch4_32": MINI["patch4_32"] | ROTARY,
}

MODELS = {
    vit: STEM_POSITION_MODELS,
    vit_every_layer: LAYER_POSITION_MODELS,
    relative_vit: RELATIVE_POSITION_MODELS,
}
