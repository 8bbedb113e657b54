"""Rot-ViT: the small body with Rotated Patch Tokenization (a project poster, without code)."""

from functools import partial

from vitbook.layers import RotatedPatches
from vitbook.models.vit import MICRO_BODY, SMALL_BODY

RPT = dict(make_tokenizer=RotatedPatches)
RPT_4 = dict(make_tokenizer=partial(RotatedPatches, num_rotations=4))
DIGITS = dict(image_size=8, patch_size=2, channels=1, num_classes=10)

# Settings of `vitbook.models.vit.vit`.
ROT_VIT_MODELS = {
    f"rot_vit_tiny_patch{patch}_{size}": dict(
        image_size=size, patch_size=patch, num_classes=classes, **SMALL_BODY, **RPT
    )
    for size, patch, classes in ((32, 4, 10), (64, 8, 200), (128, 8, 5))
} | {
    "rot_vit_micro_patch2_8": DIGITS | MICRO_BODY | RPT,
    "rot_vit_micro_r4_patch2_8": DIGITS | MICRO_BODY | RPT_4,
}
