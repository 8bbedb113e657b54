"""Weights of others in our models."""

import re

import torch
from einops import rearrange
from torch import Tensor, nn

from vitbook.extras import from_extra
from vitbook.layers.positions import resize_positions
from vitbook.models.bit import ResNetV2
from vitbook.models.timm_names import BIT_NAMES, TRANSFORMER_NAMES


@torch.no_grad()
def load_timm(
    model: nn.Module,
    name_or_timm_model: str | nn.Module,
    resize_method: str = "timm_bicubic",
) -> nn.Module:
    """Copy the weights of a timm model into ours; the logits are then the same.

    ViT, distilled DeiT, the hybrid of ResNet and ViT, and BiT. Positions are resized if the grids
    differ. A timm model without a head (``num_classes=0``) leaves ours as it is. Nothing is copied
    unless everything fits.

    Args:
        model: one of ours, for example ``create_model("vit_base_patch16_224")``.
        name_or_timm_model: a timm model, or the name of a pretrained one to download.
        resize_method: see :func:`vitbook.layers.resize_positions`.

    Returns:
        ``model``, with the weights in it.

    Raises:
        ValueError: parameters are missing, left over, or of another shape.
        ConnectionError: the weights could not be downloaded.
    """
    source = name_or_timm_model
    if isinstance(source, str):
        source = _download(source)
    names = BIT_NAMES if isinstance(model, ResNetV2) else TRANSFORMER_NAMES
    state = {_our_name(name, names): tensor for name, tensor in source.state_dict().items()}
    own = model.state_dict()
    if "prefix" in state:
        tokens = [state["prefix"], state.pop("dist_token", None)]
        state["prefix"] = torch.cat([token[0] for token in tokens if token is not None])
    if "position.table" in state:
        state["position.table"] = resize_positions(
            state["position.table"][0],
            tuple(source.patch_embed.grid_size),
            model.grid_size,
            model.num_prefix_tokens,
            resize_method,
        )
    classifier = state.get("head.classifier.weight")
    if classifier is not None and classifier.ndim == 4:  # a convolution of one pixel
        state["head.classifier.weight"] = rearrange(classifier, "classes d 1 1 -> classes d")
    if not any(name.startswith("head.") for name in state):
        state |= {name: tensor for name, tensor in own.items() if name.startswith("head.")}
    check_state(state, own, "the timm model")
    model.load_state_dict(state)
    return model


def check_state(state: dict[str, Tensor], own: dict[str, Tensor], whose: str) -> None:
    """Say the first thing that does not fit, before anything is copied.

    Raises:
        ValueError: as :func:`load_timm`.
    """
    missing, extra = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
    if missing or extra:
        words = [f"lacks {name} ({len(missing)} such)" for name in missing[:1]]
        words += [f"has {name}, which this model lacks ({len(extra)} such)" for name in extra[:1]]
        raise ValueError(f"{whose} {' and '.join(words)}: expected the same architecture")
    for name, tensor in state.items():
        if tensor.shape != own[name].shape:
            advice = "build both with the same num_classes" if "head" in name else "same sizes"
            raise ValueError(
                f"{name} of {whose} has shape {tuple(tensor.shape)}, "
                f"this model's has {tuple(own[name].shape)}: {advice}"
            )


def _our_name(name: str, names: tuple[tuple[str, str], ...]) -> str:
    for pattern, ours in names:
        if re.match(pattern, name):
            return re.sub(pattern, ours, name)
    return name


def _download(name: str) -> nn.Module:
    with from_extra("pretrained"):
        import timm

    try:
        return timm.create_model(name, pretrained=True)
    except RuntimeError:  # timm's own words for an unknown name say it well
        raise
    except Exception as error:
        raise ConnectionError(
            f"the weights of {name} could not be downloaded ({type(error).__name__}): connect to "
            "the internet, or pass a timm model that already has its weights"
        ) from error
