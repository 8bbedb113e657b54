"""Rot-ViT: the small body with Rotated Patch Tokenization (a project poster, without code)."""

import math
from collections.abc import Callable, Sequence
from functools import partial

from torch import nn

from vitbook.layers import RotatedPatches
from vitbook.models.mean_pool import of_patches_alone
from vitbook.models.vit import (
    CIFAR10,
    DIGITS,
    MICRO_BODY,
    MINI_BODY,
    SMALL_BODY,
    SMALL_IMAGES,
    VisionTransformer,
    make_encoder,
)

RPT = dict(make_tokenizer=RotatedPatches)
MIDDLE = (math.pi / 20 + math.pi / 14) / 2  # of the poster's range, radians

STRAIGHT = dict(angles=(0.0, 0.0))
NO_NORM = dict(norm=False)


def pooled_rot_vit(
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
    make_tokenizer: Callable[..., nn.Module] = RotatedPatches,
) -> VisionTransformer:
    """Rot-ViT without a class token: the poster's formula, "otherwise".

    The poster does not say what is classified then; here it is the mean of the patch tokens.

    Args:
        make_tokenizer: called with ``image_size, patch_size, channels, width``.
    """
    tokenizer = make_tokenizer(image_size, patch_size, channels, width)
    encoder = make_encoder(width, depth, num_heads, mlp_width, qkv_bias)
    return of_patches_alone(tokenizer, encoder, width, num_classes)


# What the poster leaves open, one choice at a time; "zero" is the control: copies that are not
# turned bring the same LayerNorm and the same parameters, and no new pixel. "no_norm" leaves the
# LayerNorm out of either.
VARIANTS = {
    "": {},
    "_batch": dict(per_image=False),
    "_r4": dict(num_rotations=4),
    "_fixed": dict(angles=(MIDDLE, MIDDLE)),
    "_border": dict(fill="border"),
    "_zero": STRAIGHT,
    "_no_norm": NO_NORM,
    "_zero_no_norm": STRAIGHT | NO_NORM,
}

# Settings of `vitbook.models.vit.vit`.
ROT_VIT_MODELS = (
    {
        f"rot_vit_{size}_{patches}": images | body | RPT
        for size, body in (("tiny", SMALL_BODY), ("mini", MINI_BODY))
        for patches, images in SMALL_IMAGES.items()
    }
    | {
        f"rot_vit_micro{variant}_patch2_8": DIGITS
        | MICRO_BODY
        | dict(make_tokenizer=partial(RotatedPatches, **choices))
        for variant, choices in VARIANTS.items()
    }
    | {
        f"rot_vit_mini{variant}_patch4_32": CIFAR10
        | MINI_BODY
        | dict(make_tokenizer=partial(RotatedPatches, **choices))
        for variant, choices in VARIANTS.items()
        if variant.endswith(("zero", "no_norm"))
    }
)

# Settings of `pooled_rot_vit`.
POOLED_ROT_VIT_MODELS = {"rot_vit_micro_no_class_patch2_8": DIGITS | MICRO_BODY}
