"""Vision Transformers whose attention costs less than the square of the tokens."""

from functools import partial

from vitbook.layers import (
    MLP,
    AxialBlock,
    AxialSelfAttention,
    BlockLocalSelfAttention,
    ClassTokenHead,
    Encoder,
    EncoderBlock,
    LearnedPosition,
    LinformerSelfAttention,
    PatchEmbedding,
    PerformerSelfAttention,
    SequenceProjection,
)
from vitbook.layers.attention.linformer import Sharing
from vitbook.layers.shapes import Size
from vitbook.models.papers.mean_pool import of_patches_alone
from vitbook.models.papers.vit import (
    MICRO,
    MICRO_PIXELS,
    MINI,
    TINY,
    Body,
    VisionTransformer,
    make_encoder,
    vit,
)


def linformer_vit(
    *,
    image_size: Size,
    patch_size: Size,
    channels: int = 3,
    num_classes: int,
    body: Body,
    num_keys: int,
    sharing: Sharing = "headwise",
) -> VisionTransformer:
    """A Vision Transformer that attends to mixtures of its tokens (Wang et al. 2020).

    The class token is one of the tokens that are mixed. The image's size is fixed: the
    projections of another number of tokens would be other matrices.

    Args:
        num_keys: mixtures that every token attends to.
        sharing: see :class:`~vitbook.layers.LinformerSelfAttention`.
    """
    tokenizer = PatchEmbedding(image_size, patch_size, channels, body.width)
    rows, columns = tokenizer.grid_size
    num_tokens = 1 + rows * columns
    shared = SequenceProjection(num_tokens, num_keys) if sharing == "layerwise" else None
    mixing = dict(num_tokens=num_tokens, num_keys=num_keys, sharing=sharing, shared=shared)
    encoder = make_encoder(body, partial(LinformerSelfAttention, **mixing))
    if shared is not None:  # its one owner
        encoder.projection = shared
    return VisionTransformer(
        tokenizer=tokenizer,
        position=LearnedPosition(tokenizer.grid_size, body.width),
        encoder=encoder,
        head=ClassTokenHead(body.width, num_classes),
        width=body.width,
    )


def axial_vit(
    *,
    image_size: Size,
    patch_size: Size,
    channels: int = 3,
    num_classes: int,
    body: Body,
) -> VisionTransformer:
    """A Vision Transformer along rows, then columns (ViT paper, appendix D.6).

    ``depth`` counts pairs: each has two attentions and two MLPs, and so about twice the parameters
    of a block. The paper does not say what becomes of the class token, which lies in no row. Here
    there is none, and the patches are pooled: to let it attend to all would be global attention
    again, and to copy it into every row would be another model in each.
    """
    tokenizer = PatchEmbedding(image_size, patch_size, channels, body.width)

    def half(along: str) -> EncoderBlock:
        attention = AxialSelfAttention(
            body.width, body.num_heads, body.qkv_bias, grid_size=tokenizer.grid_size, along=along
        )
        return EncoderBlock(attention, MLP(body.width, body.mlp_width), body.width)

    blocks = [AxialBlock(rows=half("rows"), columns=half("columns")) for _ in range(body.depth)]
    return of_patches_alone(tokenizer, Encoder(blocks, body.width), body.width, num_classes)


def block_local_vit(
    *,
    image_size: Size,
    patch_size: Size,
    channels: int = 3,
    num_classes: int,
    body: Body,
    block_size: Size,
) -> VisionTransformer:
    """A Vision Transformer in which tokens attend inside their block of the grid alone.

    The blocks are the same in every layer, so that one block never hears of another: they meet in
    the mean that the head takes. It is the plainest sparse pattern, and the control for those
    that mix (axial attention; the shifted blocks of Swin, the strides of the Sparse Transformer).
    A class token, which lies in no block, is not there.

    Args:
        block_size: in patches; see :class:`~vitbook.layers.BlockLocalSelfAttention`.
    """
    tokenizer = PatchEmbedding(image_size, patch_size, channels, body.width)
    make_attention = partial(
        BlockLocalSelfAttention, grid_size=tokenizer.grid_size, block_size=block_size
    )
    encoder = make_encoder(body, make_attention)
    return of_patches_alone(tokenizer, encoder, body.width, num_classes)


FEW_FEATURES = dict(make_attention=partial(PerformerSelfAttention, num_features=8))

# Settings of `vit`: Performer attention takes the place of softmax attention.
PERFORMER_VIT_MODELS = {
    "performer_vit_tiny_patch4_32": TINY["patch4_32"] | dict(make_attention=PerformerSelfAttention),
    "performer_vit_mini_patch4_32": MINI["patch4_32"] | dict(make_attention=PerformerSelfAttention),
    "performer_vit_micro_patch2_8": MICRO | dict(make_attention=PerformerSelfAttention),
    "performer_vit_micro_m8_patch2_8": MICRO | FEW_FEATURES,
}

# Settings of `linformer_vit`: 65 tokens in the small body, 17 in the micro one.
LINFORMER_VIT_MODELS = {
    "linformer_vit_tiny_patch4_32": TINY["patch4_32"] | dict(num_keys=16),
    "linformer_vit_micro_patch2_8": MICRO | dict(num_keys=8),
    "linformer_vit_micro_k4_patch2_8": MICRO | dict(num_keys=4),
    "linformer_vit_micro_shared_patch2_8": MICRO | dict(num_keys=8, sharing="layerwise"),
}

# Settings of `axial_vit`. With one pixel a token, lines and blocks are a small part of the grid.
AXIAL_VIT_MODELS = {
    "axial_vit_tiny_patch4_32": TINY["patch4_32"],
    "axial_vit_micro_patch2_8": MICRO,
    "axial_vit_micro_patch1_8": MICRO_PIXELS,
}

# Settings of `block_local_vit`: four blocks in each.
BLOCK_LOCAL_VIT_MODELS = {
    "block_local_vit_tiny_patch4_32": TINY["patch4_32"] | dict(block_size=4),
    "block_local_vit_micro_patch2_8": MICRO | dict(block_size=2),
    "block_local_vit_micro_patch1_8": MICRO_PIXELS | dict(block_size=4),
}

MODELS = {
    vit: PERFORMER_VIT_MODELS,
    linformer_vit: LINFORMER_VIT_MODELS,
    axial_vit: AXIAL_VIT_MODELS,
    block_local_vit: BLOCK_LOCAL_VIT_MODELS,
}
