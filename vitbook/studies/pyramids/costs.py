"""Multiply-adds of plain Vision Transformers and of pyramids, counted without running one."""

from collections.abc import Iterable, Mapping
from functools import cache

import torch
from torch import nn

import vitbook
from vitbook.measure import count_macs, count_parameters
from vitbook.models.papers.swin import swin
from vitbook.models.papers.vit import IMAGENET, Body, vit

# As `vit_small_patch16_224`, whose patches of 4 nobody has named.
SMALL = Body(width=384, depth=12, num_heads=6, mlp_width=1536)
# As deep as Swin-T, and as wide as its first stage.
NARROW = Body(width=96, depth=12, num_heads=3, mlp_width=384)
PLAIN = {"ViT-S, patches of 16": 16, "ViT-S, patches of 4": 4}
# All blocks in Swin-T's windows, so that the pyramids differ from it in their stages.
IN_WINDOWS = {"ViT-S, patches of 4, in windows": SMALL}
PYRAMIDS = {"Swin-T, from patches of 4": "swin_tiny_patch4_window7_224",
            "PVT v2-B2, from patches of 4": "pvt_v2_b2"}  # fmt: skip


def costs_by_size(sizes: Iterable[int] = (224, 448, 896)) -> dict[str, list[tuple[int, float]]]:
    """Model -> (side of the image in pixels, billions of multiply-adds).

    Args:
        sizes: multiples of 224, as Swin's windows of 7 must divide its last map.
    """
    sizes = tuple(sizes)
    return {
        name: [(size, _macs_of(name, size) / 1e9) for size in sizes]
        for name in (*PLAIN, *IN_WINDOWS, *PYRAMIDS)
    }


def narrow_in_windows(size: int = 224) -> tuple[int, float]:
    """Parameters and billions of multiply-adds of twelve blocks on one map of stride 4.

    Swin-T without its stages: its windows, and everywhere the width that its fine map has.
    """
    model = _in_windows(NARROW, size)
    return count_parameters(model), _macs(model, size) / 1e9


def numbers(costs: Mapping[str, list[tuple[int, float]]]) -> dict[str, float]:
    """What the text says of a map of stride 4 at 224 pixels, by the names under which it is glued.

    Args:
        costs: of :func:`costs_by_size`.
    """
    coarse, fine, windows, swin_tiny, _ = (dict(line) for line in costs.values())
    few, narrow = narrow_in_windows()
    # Twelve blocks as wide as Swin-T's fine map, whose tokens see all others.
    tokens, width, depth = 56**2, NARROW.width, NARROW.depth
    all_pairs = depth * (tokens * 12 * width**2 + 2 * tokens**2 * width) / 1e9
    with torch.device("meta"):
        whole = vitbook.create_model(PYRAMIDS["Swin-T, from patches of 4"])
    return {
        "cost-coarse": coarse[224], "cost-fine": fine[224], "cost-windows": windows[224],
        "cost-swin": swin_tiny[224], "cost-swin-large": swin_tiny[896], "cost-narrow": narrow,
        "ratio": fine[224] / swin_tiny[224], "ratio-windows": fine[224] / windows[224],
        "ratio-narrow": windows[224] / swin_tiny[224], "ratio-either": fine[224] / all_pairs,
        "millions-narrow": few / 1e6, "millions-swin": count_parameters(whole) / 1e6,
    }  # fmt: skip


def small_models(models: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Name in the catalogue -> its parameters, and its multiply-adds for 32 x 32 pixels."""
    return {name: _size_of(name) for name in models}


@cache
def _size_of(name: str) -> tuple[int, int]:
    with torch.device("meta"):
        model = vitbook.create_model(name)
    return count_parameters(model), _macs(model, 32)


@cache
def _macs_of(name: str, size: int) -> int:
    return _macs(_model(name, size), size)


def _model(name: str, size: int) -> nn.Module:
    with torch.device("meta"):
        if name in PYRAMIDS:
            return vitbook.create_model(PYRAMIDS[name], image_size=size)
        if name in IN_WINDOWS:
            return _in_windows(IN_WINDOWS[name], size)
        sizes = {"image_size": size, "patch_size": PLAIN[name], "body": SMALL}
        return vit(**IMAGENET | sizes)


def _in_windows(body: Body, size: int) -> nn.Module:
    with torch.device("meta"):
        one = {"image_size": size, "patch_size": 4, "stages": [body], "window_size": 7}
        return swin(**IMAGENET | one)


def _macs(model: nn.Module, size: int) -> int:
    return count_macs(model.eval(), torch.empty(1, 3, size, size, device="meta"))
