"""Weights that authors published, in our models: from state dicts with their code's names."""

import re
from collections.abc import Iterable, Mapping

import torch
from einops import rearrange
from torch import Tensor, nn

from vitbook.layers import PatchEmbedding, PerformerAttention, ShiftedPatches
from vitbook.models.constants import set_norm_eps
from vitbook.models.published_names import (
    DEIT_NAMES,
    SL_PATCH_NAMES,
    SL_SHIFTED_NAMES,
    T2T_PERFORMER_NAMES,
    T2T_TRANSFORMER_NAMES,
    Names,
)

# Under which names training scripts put the weights into their files; the averaged ones first.
WRAPPERS = ("state_dict_ema", "model_ema", "model_state_dict", "state_dict", "model")


def load_deit(model: nn.Module, weights: Mapping) -> nn.Module:
    """Copy weights of DeiT's code into ours, with a distillation token or without.

    github.com/facebookresearch/deit, ``models.py``. The names are those of timm of its day; for a
    timm model see :func:`vitbook.models.pretrained.load_timm`. Nothing is copied unless all fits.

    Args:
        model: for example ``create_model("deit_tiny_distilled_patch16_224")``, or for DeiT without
            distillation ``create_model("vit_tiny_patch16_224")``.
        weights: the state dict, or the file's content that has it under ``model`` or the like.

    Returns:
        ``model``, with the weights in it.

    Raises:
        ValueError: tensors are missing, left over, or of another shape.
        TypeError: something that is no state dict came.
    """
    return _load(model, weights, DEIT_NAMES, "DeiT")


def load_t2t_vit(model: nn.Module, weights: Mapping) -> nn.Module:
    """Copy weights of T2T-ViT's code into ours, with Performer token blocks or Transformer ones.

    github.com/yitu-opensource/T2T-ViT, ``models/t2t_vit.py``; also T2T-ViT-14's Wide and ResNeXt.
    The fixed waves and random features come with them. The scores are divided by the root of a
    head's width, as where the authors evaluate; that code's ``pretrained=True`` would divide by
    the root of the token's width. The Performer adds 1e-8 to its denominator, as there; a
    checkpoint holds weights alone, so that one of this model must be loaded into ``model``.
    Nothing is copied unless all fits.

    Args:
        model: for example ``create_model("t2t_vit_14")``.
        weights: the state dict, or the file's content that has it under ``state_dict_ema`` or the
            like.

    Returns:
        ``model``, with the weights in it.

    Raises:
        ValueError, TypeError: as :func:`load_deit`.
    """
    performer = any(".kqv." in name for name in model.state_dict())
    names = T2T_PERFORMER_NAMES if performer else T2T_TRANSFORMER_NAMES
    _load(model, weights, names, "T2T-ViT")
    for module in model.modules():
        if isinstance(module, PerformerAttention):
            module.epsilon = 1e-8
    return model


def load_sl_vit(model: nn.Module, weights: Mapping) -> nn.Module:
    """Copy weights of the SL-ViT authors' ViT into ours: plain, with SPT, with LSA, or both.

    github.com/aanna0701/SPT_LSA_ViT, ``models/vit.py``. Nothing is copied unless all fits. Then
    each LayerNorm of ``model`` adds 1e-5 to the variance, as in that code, where our small bodies
    add 1e-6; a checkpoint keeps that.

    Args:
        model: for example ``create_model("sl_vit_tiny_patch4_32")``.
        weights: the state dict, or the file's content that has it under ``model_state_dict`` or
            the like.

    Returns:
        ``model``, with the weights in it.

    Raises:
        ValueError, TypeError: as :func:`load_deit`.
    """
    tokenizer = getattr(model, "tokenizer", None)
    if not isinstance(tokenizer, PatchEmbedding | ShiftedPatches):
        raise ValueError(
            f"the model's tokens are made by {type(tokenizer).__name__}, SL-ViT's by plain or by "
            'shifted patches: use for example create_model("sl_vit_tiny_patch4_32")'
        )
    shifted = isinstance(tokenizer, ShiftedPatches)
    _load(model, weights, SL_SHIFTED_NAMES if shifted else SL_PATCH_NAMES, "SL-ViT")
    set_norm_eps(model, 1e-5)
    return model


@torch.no_grad()
def _load(model: nn.Module, weights: Mapping, names: Names, source: str) -> nn.Module:
    given = _unwrap(weights)
    own = model.state_dict()
    # Each prefix token is a parameter of its own elsewhere.
    prefix = own.pop("prefix", ())
    own |= {f"prefix.{number}": token for number, token in enumerate(prefix)}
    places = {name: _place(name, names) for name in own}
    patch = getattr(getattr(model, "tokenizer", None), "patch", ())
    sizes = dict(zip("pq", patch, strict=False))
    expected = {
        theirs: _rearrange(own[name], layout, sizes).shape
        for name, (theirs, layout) in places.items()
    }
    _check(given, expected, source)
    state = {
        name: _rearrange(given[theirs], " -> ".join(reversed(layout.split(" -> "))), sizes)
        for name, (theirs, layout) in places.items()
    }
    if len(prefix):
        state["prefix"] = torch.stack([state.pop(f"prefix.{n}") for n in range(len(prefix))])
    model.load_state_dict(state)
    return model


def _unwrap(weights: Mapping) -> dict[str, Tensor]:
    """The state dict alone: out of the file's other content, without DataParallel's prefix."""
    if not isinstance(weights, Mapping):
        raise TypeError(
            f"weights are {type(weights).__name__}: expected a state dict; torch.load(path, "
            "weights_only=True) reads a file, model.state_dict() a model"
        )
    for wrapper in WRAPPERS:
        if isinstance(weights.get(wrapper), Mapping):
            weights = weights[wrapper]
            break
    for name, value in weights.items():
        if not isinstance(value, Tensor):
            raise TypeError(
                f"{name} of the weights is {type(value).__name__}, no tensor: expected a state "
                f"dict, or a file's content that has one under one of {', '.join(WRAPPERS)}"
            )
    return {name.removeprefix("module."): tensor for name, tensor in weights.items()}


def _place(name: str, names: Names) -> tuple[str, str]:
    """Their name for ours, and the layout."""
    for pattern, theirs, layout in names:
        if re.match(pattern, name):
            return re.sub(pattern, theirs, name), layout
    return name, ""


def _rearrange(tensor: Tensor, layout: str, sizes: dict[str, int]) -> Tensor:
    if not layout:
        return tensor
    return rearrange(tensor, layout, **{axis: n for axis, n in sizes.items() if axis in layout})


def _check(given: dict[str, Tensor], expected: dict[str, torch.Size], source: str) -> None:
    """Say all that does not fit, by their names, before anything is copied."""
    shapes = [
        f"{name} {tuple(given[name].shape)} where {tuple(shape)} fits"
        for name, shape in expected.items()
        if name in given and given[name].shape != shape
    ]
    faults = {
        "missing": [name for name in expected if name not in given],
        "unexpected": [name for name in given if name not in expected],
        "of another shape": shapes,
    }
    if any(faults.values()):
        words = "; ".join(f"{fault}: {_some(found)}" for fault, found in faults.items() if found)
        raise ValueError(
            f"the weights are not those of a {source} model like this one: {words}. Build it with "
            "the name, image_size and num_classes that they were made for"
        )


def _some(names: Iterable[str], at_most: int = 5) -> str:
    names = list(names)
    more = f" and {len(names) - at_most} more" if len(names) > at_most else ""
    return ", ".join(names[:at_most]) + more
