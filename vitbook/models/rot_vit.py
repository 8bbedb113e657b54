"""Rot-ViT: the small body with Rotated Patch Tokenization (a project poster, without code)."""

import math
from functools import partial

from vitbook.layers import RotatedPatches
from vitbook.models.vit import MICRO_BODY, SMALL_BODY

RPT = dict(make_tokenizer=RotatedPatches)
MIDDLE = (math.pi / 20 + math.pi / 14) / 2  # of the poster's range, radians

# What the poster leaves open, one choice at a time; "zero" is the control: copies that are not
# turned bring the same LayerNorm and the same parameters, and no new pixel.
VARIANTS = {
    "": {},
    "_batch": dict(per_image=False),
    "_r4": dict(num_rotations=4),
    "_fixed": dict(angles=(MIDDLE, MIDDLE)),
    "_border": dict(fill="border"),
    "_zero": dict(angles=(0.0, 0.0)),
}

# Settings of `vitbook.models.vit.vit`.
ROT_VIT_MODELS = {
    f"rot_vit_tiny_patch{patch}_{size}": dict(
        image_size=size, patch_size=patch, num_classes=classes, **SMALL_BODY, **RPT
    )
    for size, patch, classes in ((32, 4, 10), (64, 8, 200), (128, 8, 5))
} | {
    f"rot_vit_micro{variant}_patch2_8": dict(
        image_size=8,
        patch_size=2,
        channels=1,
        num_classes=10,
        make_tokenizer=partial(RotatedPatches, **choices),
        **MICRO_BODY,
    )
    for variant, choices in VARIANTS.items()
}
