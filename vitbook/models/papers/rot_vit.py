"""Rot-ViT: the small body with Rotated Patch Tokenization (a project poster, without code)."""

import math
from functools import partial

from vitbook.layers import RotatedPatches
from vitbook.models.papers.mean_pool import vit_gap
from vitbook.models.papers.vit import MICRO, MINI, TINY, vit

RPT = dict(make_tokenizer=RotatedPatches)
MIDDLE = (math.pi / 20 + math.pi / 14) / 2  # of the poster's range, radians

STRAIGHT = dict(angles=(0.0, 0.0))
NO_NORM = dict(norm=False)

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

# Settings of `vit`.
ROT_VIT_MODELS = (
    {f"rot_vit_tiny_{patches}": tiny | RPT for patches, tiny in TINY.items()}
    | {f"rot_vit_mini_{patches}": mini | RPT for patches, mini in MINI.items()}
    | {
        f"rot_vit_micro{variant}_patch2_8": MICRO
        | dict(make_tokenizer=partial(RotatedPatches, **choices))
        for variant, choices in VARIANTS.items()
    }
    | {
        f"rot_vit_mini{variant}_patch4_32": MINI["patch4_32"]
        | dict(make_tokenizer=partial(RotatedPatches, **choices))
        for variant, choices in VARIANTS.items()
        if variant.endswith(("zero", "no_norm", "fixed", "border"))
    }
)

# Settings of `vit_gap`: without a class token, the poster's formula, "otherwise". It does not say
# what is classified then; here it is the mean of the patch tokens.
POOLED_ROT_VIT_MODELS = {"rot_vit_micro_no_class_patch2_8": MICRO | RPT}

MODELS = {vit: ROT_VIT_MODELS, vit_gap: POOLED_ROT_VIT_MODELS}
