"""Weights that authors published, in our models: from state dicts with their code's names.

Each takes the state dict, or a file's content of which one part fits, and gives ``model`` back with
the weights in it. Nothing is copied unless all fits.
"""

from collections.abc import Mapping

from torch import nn

from vitbook.layers import PatchEmbedding, PerformerAttention, ShiftedPatches
from vitbook.model_utilities import unwrapped
from vitbook.models.constants import set_norm_eps
from vitbook.models.weights.names import (
    DEIT_NAMES,
    SL_PATCH_NAMES,
    SL_SHIFTED_NAMES,
    T2T_PERFORMER_NAMES,
    T2T_TRANSFORMER_NAMES,
)
from vitbook.models.weights.renaming import load_renamed


def load_deit(model: nn.Module, weights: Mapping) -> nn.Module:
    """Copy weights of DeiT's code into ours, with a distillation token or without.

    github.com/facebookresearch/deit, ``models.py``. The names are those of timm of its day; for a
    timm model see :func:`vitbook.models.weights.timm.load_timm`.

    Args:
        model: for example ``create_model("deit_tiny_distilled_patch16_224")``, or for DeiT without
            distillation ``create_model("vit_tiny_patch16_224")``.

    Raises:
        ValueError: tensors are missing, left over, of another shape or kind, or not finite; or
            several parts fit.
        TypeError: something that is no state dict came.
    """
    return load_renamed(model, weights, DEIT_NAMES, "DeiT")


def load_t2t_vit(model: nn.Module, weights: Mapping) -> nn.Module:
    """Copy weights of T2T-ViT's code into ours, with Performer token blocks or Transformer ones.

    github.com/yitu-opensource/T2T-ViT, ``models/t2t_vit.py``; also T2T-ViT-14's Wide and ResNeXt.
    The fixed sinusoids and random features come with them. The scores are divided by the root of a
    head's width, as where the authors evaluate; that code's ``pretrained=True`` would divide by the
    root of the token's width. Each Performer layer of ``model`` then adds 1e-8 to its denominator,
    as in that code; a checkpoint keeps that.

    Args:
        model: for example ``create_model("t2t_vit_14")``.

    Raises:
        ValueError, TypeError: as :func:`load_deit`.
    """
    performer = any(".kqv." in name for name in model.state_dict())
    names = T2T_PERFORMER_NAMES if performer else T2T_TRANSFORMER_NAMES
    load_renamed(model, weights, names, "T2T-ViT")
    for module in model.modules():
        if isinstance(module, PerformerAttention):
            module.epsilon = 1e-8
    return model


def load_sl_vit(model: nn.Module, weights: Mapping) -> nn.Module:
    """Copy weights of the SL-ViT authors' ViT into ours: plain, with SPT, with LSA, or both.

    github.com/aanna0701/SPT_LSA_ViT, ``models/vit.py``. Each LayerNorm of ``model`` then adds 1e-5
    to the variance, as in that code, where our small bodies add 1e-6; a checkpoint keeps that.

    Args:
        model: for example ``create_model("sl_vit_tiny_patch4_32")``.

    Raises:
        ValueError, TypeError: as :func:`load_deit`.
    """
    tokenizer = getattr(unwrapped(model), "tokenizer", None)
    if not isinstance(tokenizer, PatchEmbedding | ShiftedPatches):
        raise ValueError(
            f"the model's tokens are made by {type(tokenizer).__name__}, SL-ViT's by plain or by "
            'shifted patches: use for example create_model("sl_vit_tiny_patch4_32")'
        )
    shifted = isinstance(tokenizer, ShiftedPatches)
    load_renamed(model, weights, SL_SHIFTED_NAMES if shifted else SL_PATCH_NAMES, "SL-ViT")
    set_norm_eps(model, 1e-5)
    return model
