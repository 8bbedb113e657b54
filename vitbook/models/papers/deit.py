"""DeiT (Touvron et al. 2021, "Training data-efficient image transformers"), distilled."""

from collections.abc import Callable, Sequence

from torch import nn

from vitbook.layers import DistilledHead, LearnedPosition, PatchEmbedding
from vitbook.models.papers.vit import (
    CIFAR10,
    DIGITS,
    MICRO_BODY,
    MINI_BODY,
    SIZES,
    SMALL_BODY,
    SMALL_IMAGES,
    VisionTransformer,
    make_encoder,
)


def distilled_vit(
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
    """A Vision Transformer with a second learned token, which listens to a teacher (section 4).

    The tokens are class, distillation, patches; each of the first two has a head of its own.

    Args:
        make_tokenizer: called with ``image_size, patch_size, channels, width``.
    """
    tokenizer = make_tokenizer(image_size, patch_size, channels, width)
    return VisionTransformer(
        tokenizer=tokenizer,
        position=LearnedPosition(tokenizer.grid_size, width, num_prefix_tokens=2),
        encoder=make_encoder(width, depth, num_heads, mlp_width, qkv_bias),
        head=DistilledHead(width, num_classes),
        width=width,
        num_prefix_tokens=2,
    )


# Settings of `distilled_vit`: the paper's three, and the small bodies.
DEIT_MODELS = (
    {
        f"deit_{size}_distilled_patch16_224": dict(
            image_size=224, patch_size=16, num_classes=1000, **SIZES[size]
        )
        for size in ("tiny", "small", "base")
    }
    | {
        f"deit_mini_distilled_{patches}": images | MINI_BODY
        for patches, images in SMALL_IMAGES.items()
    }
    | {
        "deit_tiny_distilled_patch4_32": CIFAR10 | SMALL_BODY,
        "deit_micro_distilled_patch2_8": DIGITS | MICRO_BODY,
        "deit_micro_distilled_patch1_8": DIGITS | MICRO_BODY | dict(patch_size=1),
    }
)
