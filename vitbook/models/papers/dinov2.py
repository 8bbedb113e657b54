"""DINOv2's body (Oquab et al. 2023, "DINOv2: learning robust visual features")."""

from torch import nn

from vitbook.layers import ClassAndMeanHead, ClassToken, LayerScaleBlock
from vitbook.models.papers.vit import SIZES, vit


def linear_evaluation(width: int, num_classes: int) -> nn.Module:
    """A linear layer on the class token beside the mean of the patch tokens, as the paper probes.

    Args:
        num_classes: 0 gives the class token itself.

    Example:
        >>> import torch
        >>> import vitbook
        >>> model = vitbook.create_model("vit_small_patch14_dinov2", image_size=56, num_classes=0)
        >>> model.grid_size, tuple(model(torch.zeros(1, 3, 56, 56)).shape)
        ((4, 4), (1, 384))
    """
    return ClassAndMeanHead(width, num_classes) if num_classes else ClassToken()


# Its blocks have LayerScale, and it was trained without labels.
DINOV2 = dict(make_block=LayerScaleBlock, make_head=linear_evaluation)

# Settings of `vit`, by timm's names; the giant has another MLP. The last stage of the training saw
# 518 pixels.
DINOV2_MODELS = {
    f"vit_{size}_patch14_dinov2": dict(
        image_size=518, patch_size=14, num_classes=1000, body=SIZES[size], **DINOV2
    )
    for size in ("small", "base", "large")
}

MODELS = {vit: DINOV2_MODELS}
