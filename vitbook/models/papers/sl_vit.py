"""SL-ViT (Lee, Lee and Song 2021, "Vision Transformer for small-size datasets") and its parts."""

from functools import partial

from vitbook.layers import LocalitySelfAttention, ShiftedPatches
from vitbook.models.papers.vit import (
    CIFAR10,
    DIGITS,
    FLOWERS,
    MICRO_BODY,
    MINI_BODY,
    SMALL_BODY,
    SMALL_IMAGES,
    TINY_IMAGENET,
    vit,
)

SPT = dict(make_tokenizer=ShiftedPatches)
LSA = dict(make_attention=LocalitySelfAttention)
# The control of SPT: five equal views, and so no new pixel.
UNSHIFTED = dict(make_tokenizer=partial(ShiftedPatches, shift=0))
NO_NORM = dict(make_tokenizer=partial(ShiftedPatches, norm=False))
SWAPS = {"sl": SPT | LSA, "spt": SPT, "lsa": LSA}

# Settings of `vit`: a body with one part changed, or both.
SL_VIT_MODELS = {
    "sl_vit_tiny_patch4_32": CIFAR10 | SMALL_BODY | SPT | LSA,
    "sl_vit_tiny_patch8_64": TINY_IMAGENET | SMALL_BODY | SPT | LSA,
    "sl_vit_tiny_patch8_128": FLOWERS | SMALL_BODY | SPT | LSA,
    "spt_vit_tiny_patch4_32": CIFAR10 | SMALL_BODY | SPT,
    "lsa_vit_tiny_patch4_32": CIFAR10 | SMALL_BODY | LSA,
    "spt_vit_tiny_patch8_64": TINY_IMAGENET | SMALL_BODY | SPT,
    "lsa_vit_tiny_patch8_64": TINY_IMAGENET | SMALL_BODY | LSA,
    **{
        f"{name}_vit_mini_{patches}": images | MINI_BODY | swap
        for name, swap in SWAPS.items()
        for patches, images in SMALL_IMAGES.items()
    },
    **{f"{name}_vit_micro_patch2_8": DIGITS | MICRO_BODY | swap for name, swap in SWAPS.items()},
    "spt_vit_micro_zero_patch2_8": DIGITS | MICRO_BODY | UNSHIFTED,
    "sl_vit_mini_no_norm_patch4_32": CIFAR10 | MINI_BODY | NO_NORM | LSA,
}

MODELS = {vit: SL_VIT_MODELS}
