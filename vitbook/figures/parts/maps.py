"""Attention maps as figures take them, and as a page stores them."""

from collections.abc import Mapping, Sequence

import numpy as np

from vitbook.figures.parts.drawing import as_array

PREFIX = ("class token", "second prefix token", "third prefix token")


def quantize(maps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights "layers ..." to bytes along the square root, and the largest weight of each layer.

    A weight is `scale * (byte / 255) ** 2`: off by at most `scale / 255`, and by far less where
    weights are small, so that a near uniform row of many patches survives.
    """
    scales = np.maximum(maps.reshape(len(maps), -1).max(1), 1e-12)
    shares = maps / scales.reshape(-1, *[1] * (maps.ndim - 1))
    return np.rint(255 * np.sqrt(shares)).astype(np.uint8), scales


def as_maps(name: str, maps, images: int, tokens: int) -> np.ndarray:
    """One model's maps as "layers images heads queries keys"."""
    if isinstance(maps, Mapping):
        maps = list(maps.values())
    if isinstance(maps, Sequence):
        layers = [as_array(layer) for layer in maps]
        if len({layer.shape for layer in layers}) > 1:
            raise ValueError(
                f"maps of {name!r} came with shapes {', '.join(str(x.shape) for x in layers)}, "
                "expected the same in every layer: pass full maps (an axial map is a row or column)"
            )
        maps = np.stack(layers)
    maps = as_array(maps).astype(np.float32)
    if maps.ndim != 5 or maps.shape[1] != images or maps.shape[3:] != (tokens, tokens):
        raise ValueError(
            f"maps of {name!r} came with shape {maps.shape}, expected (layers, {images}, heads, "
            f"{tokens}, {tokens}): pass full maps of these images, prefix tokens included "
            "(a Linformer or axial map has another shape and cannot be drawn here)"
        )
    if not np.isfinite(maps).all() or maps.min() < 0:
        raise ValueError(
            f"maps of {name!r} hold negative or non-finite numbers, expected weights from 0 up: "
            "pass them after the softmax"
        )
    return maps
