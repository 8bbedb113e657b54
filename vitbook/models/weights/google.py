"""Weights that Google published as ``.npz``: ViT, its hybrid and BiT, by timm's names into ours."""

import logging
import math
import re
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch
from einops import EinopsError, rearrange
from torch import Tensor, nn

from vitbook.errors import first_few
from vitbook.layers.shapes import Size
from vitbook.model_utilities import unwrapped
from vitbook.models.catalog import CATALOG, ModelSpec, create_again
from vitbook.models.papers.bit import bit
from vitbook.models.papers.hybrid import hybrid
from vitbook.models.papers.vit import Body, vit
from vitbook.models.weights.formats import WeightsError
from vitbook.models.weights.names import GOOGLE_LEAVES, GOOGLE_NAMES
from vitbook.models.weights.timm import load_state

log = logging.getLogger(__name__)

# Where the weights lie in a file: alone, beside an optimizer, in a later code, beside a text model.
ROOTS = ("", "opt/target/", "params/", "params/img/")
BLOCK = "Transformer/encoderblock"
# By timm's name.
STEM = "patch_embed.backbone.stem.conv.weight"
# Of an attention's tensors, to torch's layout: whether it is the last projection's, and its leaf.
HEADS = {
    (False, "kernel"): "i heads d -> heads d i",
    (False, "bias"): "heads d -> heads d",
    (True, "kernel"): "heads d o -> o (heads d)",
    (True, "bias"): "o -> o",
}
# What the factory of a hybrid does where the catalogue says nothing.
DEFAULTS = {hybrid: {"stage_depths": (3, 4, 9)}}


def load_google(
    model: nn.Module, path: str | Path, resize_method: str = "timm_bilinear"
) -> nn.Module:
    """Copy weights of Google's ``.npz`` files into ours: ViT, R50+ViT, BiT.

    github.com/google-research/vision_transformer and big_transfer; also big_vision, whose blocks
    may be stacked. They expect images between -1 and 1, as :func:`vitbook.datasets.normalize` gives
    them. Positions are resized if the grids differ. A head of other classes is left out, and so is
    one behind a tanh layer that ``model`` lacks; this is logged. Nothing is copied unless the rest
    fits.

    Args:
        model: one of ours, for example ``create_model("vit_base_patch16_224")``.
        resize_method: see :func:`vitbook.layers.resize_positions`; by default as timm reads these
            files, "google_bilinear" is their authors' own.

    Raises:
        WeightsError: no such file of Google's.
        ValueError: tensors are missing, left over, of another shape or kind, or not finite.
    """
    return _filled(model, google_state(path), Path(path).name, resize_method)


def model_of_google(
    path: str | Path,
    image_size: Size | None = None,
    resize_method: str = "timm_bilinear",
) -> nn.Module:
    """The model of the catalogue that a ``.npz`` of Google's was made for, with its weights.

    Without a head, or with one behind a tanh layer, its answer is the class token.

    Args:
        image_size: in pixels; by default that of the file's positions.
        resize_method: of the positions, as in :func:`load_google`.

    Raises:
        WeightsError: no such file of Google's, or the catalogue has no such ViT.
        ValueError: as :func:`load_google`; a size that the patch does not divide.
    """
    state, name = google_state(path), Path(path).name
    ours, size, channels = _described(state, name)
    bias = state.get("head.fc.bias", state.get("head.bias"))
    answers = bias is not None and "head.hidden.0.bias" not in state
    size = size if image_size is None else image_size
    model = create_again(ModelSpec(ours, size, len(bias) if answers else 0, channels))
    return _filled(model, state, name, resize_method).eval()


def google_state(path: str | Path) -> dict[str, Tensor]:
    """The weights of a ``.npz`` of Google's by timm's names, in timm's layouts.

    ``num_heads``, which no tensor of timm's tells, is one of them, and so is ``pre_logits``.

    Raises:
        WeightsError: it holds pickled objects, is damaged, or has other names than Google's.
    """
    path = Path(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, OSError, EOFError, BadZipFile) as error:
        raise WeightsError(
            f"{path} is a .npz of numpy's that cannot be read ({error}): expected arrays of "
            "numbers; copy or fetch it again"
        ) from error
    roots = [root for root in ROOTS if f"{root}embedding/kernel" in arrays]
    roots += [""] if "resnet/root_block/standardized_conv2d/kernel" in arrays else []
    if len(roots) != 1:
        raise WeightsError(
            f"{path} has the arrays {first_few(arrays)}: expected the names of Google's ViT or "
            "BiT, with one embedding/kernel"
        )
    root, state, parts = roots[0], {}, {}
    arrays = {n.removeprefix(root): each for n, each in arrays.items() if n.startswith(root)}
    for name in [name for name in arrays if name.startswith(f"{BLOCK}/")]:  # stacked by depth
        for number, array in enumerate(arrays.pop(name)):
            arrays[name.replace(BLOCK, f"{BLOCK}_{number}", 1)] = array
    for name, array in arrays.items():
        tensor = _tensor(array)
        stem, _, leaf = name.rpartition("/")
        found = re.fullmatch(rf"{BLOCK}_(\d+)/MultiHeadDotProductAttention_[01]/(\w+)", stem)
        if found is None:
            state[_timm_name(stem, leaf)] = _laid_out(tensor)
            continue
        block, part = found.groups()
        try:
            tensor = rearrange(tensor, HEADS[part == "out", leaf])
        except (KeyError, EinopsError) as error:
            shape = tuple(tensor.shape)
            raise WeightsError(f"{path} has {name} of shape {shape}: expected heads") from error
        if part == "out":
            state[f"blocks.{block}.attn.proj.{_leaf(leaf)}"] = tensor
        else:
            state["num_heads"] = torch.tensor(len(tensor))
            three = parts.setdefault(f"blocks.{block}.attn.qkv.{_leaf(leaf)}", {})
            three[part] = tensor.flatten(0, 1)
    for place, three in parts.items():
        if three.keys() != {"query", "key", "value"}:
            raise WeightsError(
                f"{path} has {', '.join(three)} for {place}: expected query, key and value"
            )
        state[place] = torch.cat([three[name] for name in ("query", "key", "value")])
    if "pos_embed" in state and "cls_token" in state and _is_square(len(state["pos_embed"][0])):
        # In later codes the class token has no place.
        state["pos_embed"] = nn.functional.pad(state["pos_embed"], (0, 0, 1, 0))
    return state


def _tensor(array: np.ndarray) -> Tensor:
    if array.dtype.itemsize == 2 and array.dtype.kind == "V":  # what numpy makes of bfloat16
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _laid_out(tensor: Tensor) -> Tensor:
    """Channels last to channels first; a norm's number for each channel may be a map of 1 x 1."""
    if tensor.ndim == 4 and tensor.shape[:3] == (1, 1, 1):
        return tensor.flatten()
    if tensor.ndim == 4:
        return rearrange(tensor, "h w i o -> o i h w")
    return rearrange(tensor, "i o -> o i") if tensor.ndim == 2 else tensor


def _leaf(leaf: str) -> str:
    return GOOGLE_LEAVES.get(leaf, leaf)


def _timm_name(stem: str, leaf: str) -> str:
    for pattern, theirs in GOOGLE_NAMES:
        if found := re.fullmatch(pattern, stem):
            numbers = [int(each) - ("/unit" in stem) for each in found.groups()]
            return f"{theirs.format(*numbers)}.{_leaf(leaf)}"
    name = f"{stem}/{leaf}".lstrip("/")
    return {"cls": "cls_token", "pos_embedding": "pos_embed"}.get(leaf, name)


def _is_square(number: int) -> bool:
    return math.isqrt(number) ** 2 == number


def _filled(model: nn.Module, state: dict[str, Tensor], name: str, method: str) -> nn.Module:
    body, grid = unwrapped(model), None
    if "pos_embed" in state:
        patches = state["pos_embed"].shape[1] - body.num_prefix_tokens
        side = math.isqrt(patches)
        grid = (side, side) if _is_square(patches) else tuple(body.grid_size)
    state = {each: tensor for each, tensor in state.items() if each != "num_heads"}
    if why := _no_head(body.head, state):
        log.warning("the head of %s was left out: %s", name, why)
        state = {each: tensor for each, tensor in state.items() if not each.startswith("head.")}
    return load_state(model, state, grid, method, name)


def _no_head(head: nn.Module, state: dict[str, Tensor]) -> str:
    """Why a file's head is not for this model; empty if it is, or there is none."""
    bias = state.get("head.fc.bias", state.get("head.bias"))
    own = getattr(head, "classifier", None)
    hidden = getattr(head, "hidden", None)
    if "head.hidden.0.bias" in state and not isinstance(hidden, nn.Sequential):
        return "it stands behind a tanh layer, which the model lacks"
    if bias is not None and own is None:
        return "the model has none"
    if bias is not None and len(bias) != own.out_features:
        return f"it has {len(bias)} classes, the model {own.out_features}"
    return ""


def _described(state: dict[str, Tensor], name: str) -> tuple[str, int, int]:
    """Name in the catalogue, side of the images in pixels, and their channels."""
    first = next(n for n in (STEM, "stem.conv.weight", "patch_embed.proj.weight") if n in state)
    blocks = sorted({n[: n.index(".norm1")] for n in state if n.endswith(".norm1.weight")})
    about: dict[str, object] = {}
    if first == "patch_embed.proj.weight":
        factory, about["patch_size"] = vit, state[first].shape[-1]
    else:
        factory = hybrid
        counts = Counter(int(n.split("stages.")[1].split(".")[0]) for n in blocks if "stages." in n)
        about["stage_depths"] = tuple(counts[stage] for stage in sorted(counts))
    if first == "stem.conv.weight":
        factory, about["width_factor"] = bit, len(state[first]) // 64
    else:
        about["body"] = Body(
            width=len(state["patch_embed.proj.weight"]),
            depth=sum(n.startswith("blocks.") for n in blocks),
            num_heads=int(state.get("num_heads", 0)),
            mlp_width=len(state.get("blocks.0.mlp.fc1.bias", ())),
        )
    numbers = {"image_size", "num_classes", "channels"} | about.keys()
    fits = {  # an entry that says more than these swaps a part
        ours: settings["image_size"]
        for ours, (made_by, settings) in CATALOG.items()
        if made_by is factory and settings.keys() <= numbers
        if about.items() <= (DEFAULTS.get(factory, {}) | settings).items()
    }
    if not fits:
        if "body" in about:
            about |= asdict(about.pop("body"))
        told = ", ".join(f"{key} {value}" for key, value in about.items())
        raise WeightsError(
            f"{name} is of a model with {told}, which the catalogue lacks: build one, and fill it "
            "with vitbook.models.weights.google.load_google"
        )
    ours, size = next(iter(fits.items()))
    if "pos_embed" in state:
        step = about.get("patch_size") or 2 ** (1 + len(about["stage_depths"]))
        size = step * math.isqrt(state["pos_embed"].shape[1])
        ours = next((each for each, named in fits.items() if named == size), ours)
    return ours, size, state[first].shape[1]
