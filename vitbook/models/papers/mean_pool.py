"""A Vision Transformer without a class token (Dosovitskiy et al. 2021, appendix D.3)."""

from collections.abc import Callable

from torch import nn

from vitbook.layers import Encoder, LearnedPosition, MeanPoolHead, PatchEmbedding
from vitbook.layers.shapes import Size
from vitbook.models.papers.vit import (
    MICRO,
    MICRO_PIXELS,
    MINI,
    Body,
    VisionTransformer,
    make_encoder,
)


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
    image_size: Size,
    patch_size: Size,
    channels: int = 3,
    num_classes: int,
    body: Body,
    make_tokenizer: Callable[..., nn.Module] = PatchEmbedding,
) -> VisionTransformer:
    """The paper's model with global average pooling (GAP) in the place of the class token.

    ViT paper, appendix D.3 and figure 9, where it needs a lower learning rate than the class token.

    Args:
        make_tokenizer: called with ``image_size, patch_size, channels, width``.
    """
    tokenizer = make_tokenizer(image_size, patch_size, channels, body.width)
    # The encoder is drawn before the positions; runs of the ledger began so.
    return of_patches_alone(tokenizer, make_encoder(body), body.width, num_classes)


# Settings of `vit_gap`.
GAP_MODELS = {
    "vit_gap_mini_patch4_32": MINI["patch4_32"],
    "vit_gap_micro_patch2_8": MICRO,
    "vit_gap_micro_patch1_8": MICRO_PIXELS,
}

MODELS = {vit_gap: GAP_MODELS}
