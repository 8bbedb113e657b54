"""Attention rollout with its knobs: who asks, how many layers, how much goes around them."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from vitbook.analysis.rollout import roll_out
from vitbook.explorer.drawing import (
    CIVIDIS,
    Number,
    as_images,
    base64,
    drawing,
    heat,
    image_png,
    pixels,
    png,
    tag,
    text,
)
from vitbook.explorer.figure import Figure
from vitbook.explorer.maps import _as_maps, quantize

_STEPS = 20  # of the residual's slider: 0, 0.05 ... 0.95
_MOST_TOKENS = 200
_ALIKE = 0.01


def rollout_map(
    image,
    maps,
    *,
    num_prefix_tokens: int,
    grid_size: tuple[int, int],
    residual: Number = 0.5,
    task: str | None = None,
    title: str = "A layer says whom a token reads; the product says of whom it has heard",
    description: str | None = None,
) -> Figure:
    """One image: what a token reads in a layer, and its rollout through the layers up to it.

    The page holds each layer's map, the mean over its heads, in bytes along the square root
    (:func:`vitbook.explorer.maps.quantize`), and carries rows through them as
    :func:`vitbook.analysis.rollout.roll_out` does.

    Args:
        image: uint8 "c h w".
        maps: of this image: a list of "1 heads queries keys" by layer, or what
            `capture_attention` yielded.
        num_prefix_tokens: tokens before the patches, the class token first; at least one.
        grid_size: rows and columns of the patches.
        residual: weight of the path around the attention at the start, a multiple of 0.05 from 0
            to 0.95.
        task: a sentence above the figure; by default it asks after how many layers it no longer
            matters who asks.
        description: the caption; by default the finding at the start, in words.
    """
    image = as_images(image[None])[0]
    rows, columns = grid_size
    tokens = num_prefix_tokens + rows * columns
    if num_prefix_tokens < 1 or tokens > _MOST_TOKENS:
        raise ValueError(
            f"{num_prefix_tokens} prefix tokens and a grid of {rows}x{columns} came, expected a "
            f"class token and at most {_MOST_TOKENS} tokens: the page multiplies whole maps"
        )
    if image.shape[1] % rows or image.shape[2] % columns:
        raise ValueError(
            f"a grid of {rows}x{columns} does not divide an image of {image.shape[1]}x"
            f"{image.shape[2]}: pass the model's grid_size, and the image at the size it saw"
        )
    at = round(residual * _STEPS)
    if not 0 <= at < _STEPS or abs(at / _STEPS - residual) > 1e-9:
        raise ValueError(f"residual came as {residual}, expected 0, 0.05, 0.1 ... or 0.95")
    if not isinstance(maps, Mapping | Sequence):
        raise ValueError("maps came as one tensor, expected a list with one for each layer")
    fused = _as_maps("this model", maps, 1, tokens).mean(2)[:, 0]
    fused = fused / fused.sum(-1, keepdims=True)
    codes, scales = quantize(fused)
    whole = rolled(fused, residual)
    top = max(float(each[0, num_prefix_tokens:].max()) for each in (fused[-1], whole))
    apart = difference(whole)
    finding = (
        f"At the start the class token asks, through all {len(fused)} layers, with a residual of "
        f"{residual:g}, and {100 * whole[0, 0]:.0f} % of its rollout stays on itself. With these "
        f"settings a token's rollout differs on average from the mean of all tokens' in "
        f"{100 * apart:.1f} % of its weight; one layer's map, the last, in "
        f"{100 * difference(fused[-1]):.0f} %.\nBoth maps share one scale, whose end follows the "
        f"brightest patch shown."
    )
    if task is None:
        task = (
            "Set the residual to 0. Find the fewest layers after which it hardly matters who "
            f"asks: less than {100 * _ALIKE:.0f} % of the weight differs."
        )
    data = {
        "image": image_png(image), "height": image.shape[1], "width": image.shape[2],
        "grid": [rows, columns], "prefix": num_prefix_tokens, "layers": len(fused),
        "scales": [float(f"{scale:.6g}") for scale in scales], "codes": base64(codes),
        "steps": _STEPS, "alike": _ALIKE, "ramp": CIVIDIS, "task": task,
        "start": {"query": 0, "depth": len(fused), "residual": at},
    }  # fmt: skip
    still = _still(data, fused[-1], whole, top, apart, finding)
    return Figure("rollout_map.js", data, title, description or finding, still)


def rolled(fused: np.ndarray, residual: Number) -> np.ndarray:
    """All tokens' rows through these layers, "layers tokens tokens" -> "tokens tokens"."""
    layers = torch.from_numpy(np.asarray(fused, dtype=np.float64))[:, None]
    return roll_out(torch.eye(layers.shape[-1]).double()[None], layers, float(residual))[0].numpy()


def difference(rows: np.ndarray) -> float:
    """The share of a row that differs from the mean of all rows, on average: 0 if all agree."""
    return float(np.abs(rows - rows.mean(0)).sum(-1).mean() / 2)


def _still(
    data: dict, last: np.ndarray, whole: np.ndarray, top: float, apart: float, words: str
) -> str:
    """The image, the last layer's row and the rollout of the class token, on one scale."""
    side, gap, prefix = 190, 16, data["prefix"]
    tall = side * data["height"] / data["width"]
    depth, residual = data["layers"], data["start"]["residual"] / data["steps"]
    parts = [
        text(0, 14, "the class token asks", font_weight=600),
        pixels(data["image"], 0, 24, side, tall),
    ]
    panels = ((f"reads in layer {depth}", last[0]),
              (f"has heard of after {depth}", whole[0]))  # fmt: skip
    for number, (name, row) in enumerate(panels, start=1):
        left = number * (side + gap)
        cells = heat(row[prefix:].reshape(data["grid"]), top)
        parts += [text(left, 14, name, font_weight=600), pixels(png(cells), left, 24, side, tall)]
    terms = ((f"{100 * whole[0, 0]:.1f} %", "stays on itself"),
             (f"{100 * whole[0, prefix:].max():.1f} %", "on the patch heard of most"),
             (f"{100 * apart:.1f} %", "differs between askers"))  # fmt: skip
    for number, (value, name) in enumerate(terms):
        left = number * (side + gap)
        parts += [text(left, tall + 56, value, font_size=22, font_weight=600),
                  text(left, tall + 74, name)]  # fmt: skip
    width = 3 * side + 2 * gap
    parts += [
        tag("line", x1=0, x2=width, y1=tall + 86, y2=tall + 86, stroke="currentColor",
            stroke_opacity=0.3),
        text(0, tall + 104, f"residual {residual:.2f}; colours from 0 to {top:.3f}"),
    ]  # fmt: skip
    return drawing(width, round(tall + 112), words, *parts)
