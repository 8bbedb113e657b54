"""A Vision Transformer without a class token (Dosovitskiy et al. 2021, appendix D.3)."""

from collections.abc import Callable, Sequence

from torch import nn

from vitbook.layers import Encoder, LearnedPosition, MeanPoolHead, PatchEmbedding
from vitbook.models.papers.vit import DIGITS, MICRO_BODY, VisionTransformer, make_encoder


def of_patches_alone(
    tokenizer: nn.Module,
    encoder: Encoder,
    width: int,
    num_classes: int,
    out_width: int | None = None,
) -> VisionTransformer:
    """No token stands in front of the patches: the head reads their mean.

    Args:
        tokenizer: images to patch tokens; has ``grid_size``.
        encoder: tokens to tokens, with the last norm.
        width: of a token.
        out_width: of one that leaves the encoder, if it is another.
    """
    return VisionTransformer(
        tokenizer=tokenizer,
        position=LearnedPosition(tokenizer.grid_size, width, num_prefix_tokens=0),
        encoder=encoder,
        head=MeanPoolHead(out_width or width, num_classes),
        width=width,
        num_prefix_tokens=0,
    )


def vit_gap(
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
    make_tokenizer: Callable[..., nn.Module] = PatchEmbedding,
) -> VisionTransformer:
    """The paper's model with global average pooling (GAP) in the place of the class token.

    ViT paper, appendix D.3 and figure 9, where it needs a lower learning rate than the class token.

    Args:
        make_tokenizer: called with ``image_size, patch_size, channels, width``.
    """
    # The encoder is drawn before the positions; runs of the ledger began so.
    return of_patches_alone(
        make_tokenizer(image_size, patch_size, channels, width),
        make_encoder(width, depth, num_heads, mlp_width, qkv_bias),
        width,
        num_classes,
    )


# Settings of `vit_gap`.
GAP_MODELS = {
    "vit_gap_micro_patch2_8": DIGITS | MICRO_BODY,
    "vit_gap_micro_patch1_8": DIGITS | MICRO_BODY | dict(patch_size=1),
}

MODELS = {vit_gap: GAP_MODELS}
