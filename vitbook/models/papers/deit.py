"""DeiT (Touvron et al. 2021, "Training data-efficient image transformers"), distilled."""

from vitbook.layers import DistilledHead
from vitbook.models.papers.vit import (
    CIFAR10,
    DIGITS,
    MICRO_BODY,
    MINI_BODY,
    SIZES,
    SMALL_BODY,
    SMALL_IMAGES,
    vit,
)

# A second learned token listens to a teacher (section 4). The tokens are class, distillation,
# patches; each of the first two has a head of its own.
DISTILLED = dict(num_prefix_tokens=2, make_head=DistilledHead)

# Settings of `vit`: the paper's three, and the small bodies.
DEIT_MODELS = (
    {
        f"deit_{size}_distilled_patch16_224": dict(
            image_size=224, patch_size=16, num_classes=1000, **SIZES[size], **DISTILLED
        )
        for size in ("tiny", "small", "base")
    }
    | {
        f"deit_mini_distilled_{patches}": images | MINI_BODY | DISTILLED
        for patches, images in SMALL_IMAGES.items()
    }
    | {
        "deit_tiny_distilled_patch4_32": CIFAR10 | SMALL_BODY | DISTILLED,
        "deit_micro_distilled_patch2_8": DIGITS | MICRO_BODY | DISTILLED,
        "deit_micro_distilled_patch1_8": DIGITS | MICRO_BODY | DISTILLED | dict(patch_size=1),
    }
)

MODELS = {vit: DEIT_MODELS}
