"""Attention rollout with its knobs: who asks, how many layers, how much goes around them."""

import numpy as np
import torch

from vitbook.analysis.attention.rollout import roll_out
from vitbook.figures.parts.drawing import CIVIDIS, Number, as_images, base64, image_png
from vitbook.figures.parts.figure import Figure
from vitbook.figures.parts.maps import as_maps, quantize

_STEPS = 20  # of the residual's slider: 0, 0.05 ... 0.95
_RESIDUAL = 0.5  # at the start
_MOST_TOKENS = 200
_ALIKE = 0.01


def rollout_map(
    image,
    maps,
    *,
    num_prefix_tokens: int,
    grid_size: tuple[int, int],
    task: str | None = None,
    title: str = "A layer says whom a token reads; the product says of whom it has heard",
    description: str | None = None,
) -> Figure:
    """One image: what a token reads in a layer, and its rollout through the layers up to it.

    The page holds each layer's map, the mean over its heads, in bytes along the square root
    (:func:`vitbook.figures.parts.maps.quantize`), and carries rows through them as
    :func:`vitbook.analysis.attention.rollout.roll_out` does.

    Args:
        image: uint8 "c h w".
        maps: of this image: a list of "1 heads queries keys" by layer, or what
            `capture_attention` yielded.
        num_prefix_tokens: tokens before the patches, the class token first; at least one.
        grid_size: rows and columns of the patches.
    """
    image = as_images(image[None])[0]
    rows, columns = grid_size
    tokens = num_prefix_tokens + rows * columns
    if num_prefix_tokens < 1 or tokens > _MOST_TOKENS:
        raise ValueError(
            f"{num_prefix_tokens} prefix tokens and a grid of {rows}x{columns} came, expected a "
            f"class token and at most {_MOST_TOKENS} tokens: the page multiplies whole maps"
        )
    fused = as_maps("this model", maps, 1, tokens).mean(2)[:, 0]
    fused = fused / fused.sum(-1, keepdims=True)
    codes, scales = quantize(fused)
    whole = rolled(fused, _RESIDUAL)
    apart = difference(whole)
    finding = (
        f"At the start the class token asks, through all {len(fused)} layers, with a residual of "
        f"{_RESIDUAL:g}, and {100 * whole[0, 0]:.0f} % of its rollout stays on itself. With these "
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
        "start": {"query": 0, "depth": len(fused), "residual": round(_RESIDUAL * _STEPS)},
    }  # fmt: skip
    return Figure("rollout_map", data, title, description or finding)


def rolled(fused: np.ndarray, residual: Number) -> np.ndarray:
    """All tokens' rows through these layers, "layers tokens tokens" -> "tokens tokens"."""
    layers = torch.from_numpy(np.asarray(fused, dtype=np.float64))[:, None]
    return roll_out(torch.eye(layers.shape[-1]).double()[None], layers, float(residual))[0].numpy()


def difference(rows: np.ndarray) -> float:
    """The share of a row that differs from the mean of all rows, on average: 0 if all agree."""
    return float(np.abs(rows - rows.mean(0)).sum(-1).mean() / 2)
