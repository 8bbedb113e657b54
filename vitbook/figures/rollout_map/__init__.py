"""Attention rollout on a photograph: one layer, all layers up to it, and those of one class."""

from collections.abc import Mapping

import numpy as np
import torch

from vitbook.analysis.attention.rollout import roll_out
from vitbook.figures.attention_gallery import picture
from vitbook.figures.parts.drawing import CIVIDIS, as_array, as_images, base64
from vitbook.figures.parts.figure import Figure, piece_key
from vitbook.figures.parts.maps import as_maps, quantize
from vitbook.figures.parts.packing import squeeze

_RESIDUAL = 0.5
_MOST_WEIGHTS = 1_000_000


def rollout_map(
    image,
    maps,
    *,
    num_prefix_tokens: int,
    grid_size: tuple[int, int],
    weighted: Mapping[str, object],
    left_out: tuple[int, int] = (0, 0),
    task: str | None = None,
    title: str = "One layer, all layers up to it, and what of them speaks for a class",
    description: str | None = None,
) -> Figure:
    """One image: what a token reads in a layer, its rollout up to there, and a class's map.

    What is shown at the start comes with the page. Each layer's map, the mean over its heads, in
    bytes along the square root (:func:`vitbook.figures.parts.maps.quantize`), is a piece that is
    fetched when another row is asked for; the page carries a row through them as
    :func:`vitbook.analysis.attention.rollout.roll_out` does, with a residual of 0.5.

    Args:
        image: uint8 "c h w".
        maps: of this image: a list of "1 heads queries keys" by layer, or what
            `capture_attention` yielded.
        num_prefix_tokens: tokens before the patches, the class token first; at least one.
        grid_size: rows and columns of the patches.
        weighted: class -> "layers rows columns": the map of this class through the first layer,
            the first two ...
        left_out: layer and head, from 0, that the reader may leave out of the product.

    Raises:
        ValueError: no class token, no class, more weights than a page can hold, a layer or head
            that is not there, maps of a class of another shape.
    """
    image = as_images(image[None])[0]
    rows, columns = grid_size
    tokens = num_prefix_tokens + rows * columns
    if num_prefix_tokens < 1:
        raise ValueError("no prefix token came, expected a class token in front of the patches")
    heads = as_maps("this model", maps, 1, tokens)[:, 0]
    layers, count = heads.shape[:2]
    if (total := (layers + 1) * tokens**2) > _MOST_WEIGHTS:
        raise ValueError(
            f"{layers} layers of {tokens} tokens make {total:,} weights, expected at most "
            f"{_MOST_WEIGHTS:,}: the page multiplies whole maps; take a smaller image"
        )
    layer, head = left_out
    if not (0 <= layer < layers and 0 <= head < count and count > 1):
        raise ValueError(
            f"left_out {left_out}: expected a layer under {layers} and one of several heads, "
            f"under {count}"
        )
    if not weighted:
        raise ValueError("weighted holds no class: expected the maps of one at least")
    others = np.delete(heads[layer], head, axis=0).mean(0)
    fused = np.concatenate([heads.mean(1), others[None]])
    fused /= fused.sum(-1, keepdims=True)
    codes, scales = quantize(fused)
    stored = squeeze(codes.tobytes())
    start = torch.eye(tokens)[:1]  # the class token
    through = torch.from_numpy(fused[:layers, None])
    begun, most = quantize(np.stack([fused[layers - 1, 0], roll_out(start, through)[0].numpy()]))
    of_classes = [_of_class(name, each, (layers, rows, columns)) for name, each in weighted.items()]
    data = {
        "image": picture(image), "height": image.shape[1], "width": image.shape[2],
        "grid": [rows, columns], "prefix": num_prefix_tokens, "layers": layers,
        "scales": [float(f"{scale:.6g}") for scale in scales], "codes": piece_key(stored),
        "begun": {"scales": [float(each) for each in most], "codes": base64(begun)},
        "classes": list(weighted), "weighted": [base64(each) for each in of_classes],
        "residual": _RESIDUAL, "leftOut": [layer, head], "ramp": CIVIDIS,
        "task": f"Move the layer down to 1 and watch the rollout's brightest patch. Then, at layer "
                f"{layers}, leave out head {head + 1} of layer {layer + 1}."
                if task is None else task,
        "start": {"query": 0, "depth": layers, "without": False, "class": 0},
    }  # fmt: skip
    finding = (
        f"At the start the class token asks, through all {layers} layers. Each map has its own "
        "scale, from 0 to its brightest patch; how bright that is stands below it. The map of a "
        "class is always the class token's."
    )
    return Figure("rollout_map", data, title, description or finding, (stored,))


def _of_class(name: str, maps, shape: tuple[int, int, int]) -> np.ndarray:
    """Bytes along the square root, each layer's brightest patch 255."""
    maps = as_array(maps).astype(np.float32)
    if maps.shape != shape or not np.isfinite(maps).all() or maps.min() < 0:
        raise ValueError(
            f"the maps of {name!r} came with shape {maps.shape}, expected {shape}, layers, rows "
            "and columns, of numbers from 0 up"
        )
    return quantize(maps)[0]
