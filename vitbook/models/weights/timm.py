"""Weights of timm's models in ours."""

import re

from torch import Tensor, nn

from vitbook.colors import colors_of, say_colors
from vitbook.extras import from_extra
from vitbook.layers import (
    NormedMeanHead,
    SelfAttention,
    SpatialReductionAttention,
)
from vitbook.layers.positions import resize_positions
from vitbook.model_utilities import own_state, unwrapped
from vitbook.models.papers.bit import ResNetV2
from vitbook.models.papers.pyramid import PyramidTransformer
from vitbook.models.weights.names import TIMM_BIT_NAMES, TIMM_TRANSFORMER_NAMES, Names
from vitbook.models.weights.pyramid_names import of_hiera, timm_pyramid_names
from vitbook.models.weights.renaming import load_renamed

# Names that timm has and we have not.
TIMMS = re.compile(r"(^|\.)(patch_embed|blocks\.\d+\.attn|stages\.\d+\.blocks)\.")

# timm's names for what has another one here.
TWINS = {
    f"deit_{size}_patch16_224": f"vit_{size}_patch16_224" for size in ("tiny", "small", "base")
}


def load_timm(
    model: nn.Module,
    name_or_timm_model: str | nn.Module,
    resize_method: str = "timm_bicubic",
) -> nn.Module:
    """Copy the weights of a timm model into ours; the logits are then the same.

    ViT, distilled DeiT, DINOv2, the hybrid of ResNet and ViT, BiT, Swin, PVT v2 and Hiera.
    Positions are resized if the grids differ. A timm model without a head (``num_classes=0``)
    leaves ours as it is. Nothing is copied unless everything fits.

    Args:
        model: one of ours, for example ``create_model("vit_base_patch16_224")``.
        name_or_timm_model: a timm model, or the name of a pretrained one to download.
        resize_method: see :func:`vitbook.layers.resize_positions`.

    Returns:
        ``model``, which says its colours as timm's does.

    Raises:
        ValueError: tensors are missing, left over, of another shape or kind, or not finite.
        TypeError: neither a name nor a model came.
        ConnectionError: the weights could not be downloaded.
    """
    source = name_or_timm_model
    if isinstance(source, str):
        source = download(source)
    if not isinstance(source, nn.Module):
        raise TypeError(
            f"{type(source).__name__} came: expected a timm model or the name of one; a state "
            "dict is loaded by load_deit of vitbook.models.weights.authors"
        )
    patches = getattr(unwrapped(source), "patch_embed", None)
    grid = None if patches is None else getattr(unwrapped(patches), "grid_size", None)
    if (own := getattr(unwrapped(source), "tokens_spatial_shape", None)) is not None:  # Hiera's
        grid = tuple(own)
    _check_attention(unwrapped(model), unwrapped(source))
    load_state(model, own_state(source), grid, resize_method, "the timm model")
    if (colors := colors_of(source)) is not None:
        say_colors(model, colors.mean, colors.std)
    return model


def download(name: str) -> nn.Module:
    """A pretrained model of timm's.

    Raises:
        ConnectionError: the weights could not be downloaded.
        RuntimeError: timm knows no such name.
    """
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


def load_state(
    model: nn.Module,
    state: dict[str, Tensor],
    grid: tuple[int, int] | None,
    method: str,
    whose: str,
) -> nn.Module:
    """:func:`~.renaming.load_renamed` by timm's names.

    Args:
        grid: that the table of positions was made for; None where there is no table.
        method: of its resizing, see :func:`vitbook.layers.resize_positions`.
    """
    if "pos_embed_win" in state:
        raise ValueError(
            f"{whose} has two tables of positions, one of them for each window (abswin): the "
            "catalogue has no such model; probe it as it is"
        )
    if "pos_embed" in state:
        body = unwrapped(model)  # a pyramid's own grid is that of its last map
        own = getattr(body, "position", body).grid_size
        table = resize_positions(state["pos_embed"][0], grid, own, body.num_prefix_tokens, method)
        state = state | {"pos_embed": table[None]}
    # A norm in front of the classifier is part of a headless model.
    normed = isinstance(getattr(unwrapped(model), "head", None), NormedMeanHead)
    optional = "head.classifier." if normed else "head."
    return load_renamed(model, state, _names_for(model), whose, optional=optional)


def _check_attention(model: nn.Module, source: nn.Module) -> None:
    """Refuse what the shapes of weights do not tell, and the logits would.

    Raises:
        ValueError: other heads; of Hiera, other mask units, poolings or paddings.
    """
    ours = [
        part.num_heads
        for part in model.modules()
        if isinstance(part, SelfAttention | SpatialReductionAttention)
    ]
    theirs = [
        getattr(part, "num_heads", getattr(part, "heads", None))
        for part in source.modules()
        if isinstance(getattr(part, "qkv", getattr(part, "kv", None)), nn.Linear)
    ]
    compared = {"heads": (theirs, ours)}
    is_hiera = isinstance(getattr(model, "head", None), NormedMeanHead)
    if is_hiera and hasattr(source, "mask_unit_size"):
        compared |= of_hiera(model, source)
    for what, (theirs, ours) in compared.items():
        if len(theirs) == len(ours) and theirs != ours:  # of another depth: it is told by name
            raise ValueError(
                f"{what}: {theirs} in the timm model, {ours} in this one. The weights would fit, "
                "and the logits differ: build the model that they were made for"
            )


def load_named(model: nn.Module, state: dict[str, Tensor], whose: str) -> nn.Module:
    """:func:`~.renaming.load_renamed` by our own names, or by timm's; the grid is the same."""
    if not any(TIMMS.search(name) for name in state):
        return load_renamed(model, state, (), whose)
    return load_renamed(model, state, _names_for(model), whose, optional="head.")


def _names_for(model: nn.Module) -> Names:
    body = unwrapped(model)
    if isinstance(body, ResNetV2):
        return TIMM_BIT_NAMES
    if isinstance(body, PyramidTransformer):
        return timm_pyramid_names(body)
    return TIMM_TRANSFORMER_NAMES
