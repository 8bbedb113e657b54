"""SL-ViT (Lee, Lee and Song 2021, "Vision Transformer for small-size datasets") and its parts."""

from functools import partial

from vitbook.layers import LocalitySelfAttention, ShiftedPatches
from vitbook.models.papers.vit import MICRO, MINI, TINY, vit

SPT = dict(make_tokenizer=ShiftedPatches)
LSA = dict(make_attention=LocalitySelfAttention)
# The control of SPT: five equal views, and so no new pixel.
UNSHIFTED = dict(make_tokenizer=partial(ShiftedPatches, shift=0))
NO_NORM = dict(make_tokenizer=partial(ShiftedPatches, norm=False))
SWAPS = {"sl": SPT | LSA, "spt": SPT, "lsa": LSA}

# Settings of `vit`: a body with one part changed, or both.
SL_VIT_MODELS = {
    **{f"sl_vit_tiny_{patches}": tiny | SPT | LSA for patches, tiny in TINY.items()},
    **{
        f"{name}_vit_tiny_{patches}": TINY[patches] | SWAPS[name]
        for patches in ("patch4_32", "patch8_64")
        for name in ("spt", "lsa")
    },
    **{
        f"{name}_vit_mini_{patches}": mini | swap
        for name, swap in SWAPS.items()
        for patches, mini in MINI.items()
    },
    **{f"{name}_vit_micro_patch2_8": MICRO | swap for name, swap in SWAPS.items()},
    "spt_vit_micro_zero_patch2_8": MICRO | UNSHIFTED,
    "sl_vit_mini_no_norm_patch4_32": MINI["patch4_32"] | NO_NORM | LSA,
}

MODELS = {vit: SL_VIT_MODELS}
