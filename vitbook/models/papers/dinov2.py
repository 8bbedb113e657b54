"""DINOv2's body (Oquab et al. 2023, "DINOv2: learning robust visual features")."""

from collections.abc import Sequence

from vitbook.layers import (
    ClassAndMeanHead,
    ClassToken,
    LayerScaleBlock,
    LearnedPosition,
    PatchEmbedding,
)
from vitbook.models.papers.vit import SIZES, VisionTransformer, make_encoder


def dinov2(
    *,
    image_size: int | Sequence[int],
    patch_size: int | Sequence[int],
    channels: int = 3,
    width: int,
    depth: int,
    num_heads: int,
    mlp_width: int,
    num_classes: int,
) -> VisionTransformer:
    """A Vision Transformer whose blocks have LayerScale, and which was trained without labels.

    Args:
        num_classes: of a linear layer on the class token beside the mean of the patch tokens, as
            in the paper's linear evaluation; 0 gives the class token itself.

    Example:
        >>> import torch
        >>> import vitbook
        >>> model = vitbook.create_model("vit_small_patch14_dinov2", image_size=56, num_classes=0)
        >>> model.grid_size, tuple(model(torch.zeros(1, 3, 56, 56)).shape)
        ((4, 4), (1, 384))
    """
    tokenizer = PatchEmbedding(image_size, patch_size, channels, width)
    return VisionTransformer(
        tokenizer=tokenizer,
        position=LearnedPosition(tokenizer.grid_size, width),
        encoder=make_encoder(width, depth, num_heads, mlp_width, make_block=LayerScaleBlock),
        head=ClassAndMeanHead(width, num_classes) if num_classes else ClassToken(),
        width=width,
    )


# By timm's names; the giant has another MLP. The last stage of the training saw 518 pixels.
DINOV2_MODELS = {
    f"vit_{size}_patch14_dinov2": dict(
        image_size=518, patch_size=14, num_classes=1000, **SIZES[size]
    )
    for size in ("small", "base", "large")
}
