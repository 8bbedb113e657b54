"""SL-ViT (Lee, Lee and Song 2021, "Vision Transformer for small-size datasets") and its parts."""

from vitbook.layers import LocalitySelfAttention, ShiftedPatches
from vitbook.models.vit import MICRO_BODY, SMALL_BODY

SPT = dict(make_tokenizer=ShiftedPatches)
LSA = dict(make_attention=LocalitySelfAttention)
CIFAR10 = dict(image_size=32, patch_size=4, num_classes=10)
TINY_IMAGENET = dict(image_size=64, patch_size=8, num_classes=200)
FLOWERS = dict(image_size=128, patch_size=8, num_classes=5)
DIGITS = dict(image_size=8, patch_size=2, channels=1, num_classes=10)

# Settings of `vitbook.models.vit.vit`: a body with one part changed, or both.
SL_VIT_MODELS = {
    "sl_vit_tiny_patch4_32": CIFAR10 | SMALL_BODY | SPT | LSA,
    "sl_vit_tiny_patch8_64": TINY_IMAGENET | SMALL_BODY | SPT | LSA,
    "sl_vit_tiny_patch8_128": FLOWERS | SMALL_BODY | SPT | LSA,
    "spt_vit_tiny_patch4_32": CIFAR10 | SMALL_BODY | SPT,
    "lsa_vit_tiny_patch4_32": CIFAR10 | SMALL_BODY | LSA,
    "spt_vit_tiny_patch8_64": TINY_IMAGENET | SMALL_BODY | SPT,
    "lsa_vit_tiny_patch8_64": TINY_IMAGENET | SMALL_BODY | LSA,
    "sl_vit_micro_patch2_8": DIGITS | MICRO_BODY | SPT | LSA,
    "spt_vit_micro_patch2_8": DIGITS | MICRO_BODY | SPT,
    "lsa_vit_micro_patch2_8": DIGITS | MICRO_BODY | LSA,
}
