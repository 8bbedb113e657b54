"""The changes since 2021, one row of the experiment each."""

from typing import NamedTuple

PLAIN = "vit_mini_patch4_32"
MUON = {"optimizer": "muon", "momentum": 0.95}


class Change(NamedTuple):
    """What stands in the place of a part of the plain model.

    Attributes:
        model: of the catalogue.
        recipe: numbers of the recipe that change with it.
    """

    model: str
    recipe: dict


# Role of the experiment `modern` -> what it trains; each differs from plain by itself alone.
CHANGES = {
    "LayerScale": Change("vit_layerscale_mini_patch4_32", {}),
    "QK-norm": Change("vit_qknorm_mini_patch4_32", {}),
    "SwiGLU": Change("vit_swiglu_mini_patch4_32", {}),
    "RMSNorm": Change("vit_rmsnorm_mini_patch4_32", {}),
    "registers": Change("vit_registers_mini_patch4_32", {}),
    "RoPE": Change("vit_rope_mini_patch4_32", {}),
    "no class token": Change("vit_gap_mini_patch4_32", {}),
    "patch dropout": Change("vit_patchdropout_mini_patch4_32", {}),
    "Muon": Change(PLAIN, MUON),
    "modern": Change("vit_modern_mini_patch4_32", MUON),
    "modern, AdamW": Change("vit_modern_mini_patch4_32", {}),
}
ROLES = {"plain": Change(PLAIN, {})} | CHANGES
# As a reader is told them.
NAMES = {role: role for role in ROLES} | {
    "modern": "all together, Muon",
    "modern, AdamW": "all together, AdamW",
}
