"""DeiT (Touvron et al. 2021, "Training data-efficient image transformers"), distilled."""

from vitbook.layers import DistilledHead
from vitbook.models.papers.vit import IMAGENET, MICRO, MICRO_PIXELS, MINI, SIZES, TINY, vit

# A second learned token listens to a teacher (section 4). The tokens are class, distillation,
# patches; each of the first two has a head of its own.
DISTILLED = dict(num_prefix_tokens=2, make_head=DistilledHead)

# Settings of `vit`: the paper's three, and the small bodies.
DEIT_MODELS = (
    {
        f"deit_{size}_distilled_patch16_224": IMAGENET
        | dict(patch_size=16, body=SIZES[size])
        | DISTILLED
        for size in ("tiny", "small", "base")
    }
    | {f"deit_mini_distilled_{patches}": mini | DISTILLED for patches, mini in MINI.items()}
    | {
        "deit_tiny_distilled_patch4_32": TINY["patch4_32"] | DISTILLED,
        "deit_micro_distilled_patch2_8": MICRO | DISTILLED,
        "deit_micro_distilled_patch1_8": MICRO_PIXELS | DISTILLED,
    }
)

MODELS = {vit: DEIT_MODELS}
