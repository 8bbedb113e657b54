"""One head's scores, and what a sharpness and a forbidden diagonal make of them."""

from math import prod

import numpy as np

from vitbook.figures.parts.drawing import CIVIDIS, as_array, as_images, image_png
from vitbook.figures.parts.figure import Figure, at_the_start

_GOAL = 0.5
# Eighths to eight times, four steps a doubling; the middle leaves the scores as they are.
_SHARPNESS = [float(f"{2 ** (step / 4):.3g}") for step in range(-12, 13)]


def _softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()


def locality_dial(
    image,
    weights,
    *,
    grid_size: tuple[int, int],
    num_prefix_tokens: int,
    task: str | None = None,
    title: str = "Sharpened alone, this patch ends at itself; masked, it chooses among the others",
    description: str | None = None,
) -> Figure:
    """A head's attention from a patch one can click, with LSA's two parts as controls.

    The logarithm of a weight is its score, but for a constant of the row that the softmax drops.
    The page multiplies these scores by a sharpness, as LSA's learned temperature does, leaves out
    the patch that asks, as LSA's mask does, and takes the softmax again. At first that patch asks
    which gives itself most when sharpened, of those that give it less than half as it is.

    Args:
        image: uint8 "c h w", as the model saw it.
        weights: one head's map, "queries keys" over all tokens, prefix first, without a mask.
        grid_size: rows and columns of the patches.
        num_prefix_tokens: tokens before the patches.
    """
    image = as_images(as_array(image)[None])[0]
    weights = as_array(weights).astype(float)
    rows, columns = grid_size
    tokens = num_prefix_tokens + prod(grid_size)
    if weights.shape != (tokens, tokens):
        raise ValueError(
            f"weights came with shape {weights.shape}, expected ({tokens}, {tokens}) for "
            f"{num_prefix_tokens} prefix tokens and a grid of {rows}x{columns}: pass one head of "
            "one image, prefix tokens included"
        )
    if not (weights > 0).all() or np.abs(weights.sum(1) - 1).max() > 1e-3:
        raise ValueError(
            "weights came with a zero or with rows that do not sum to 1, expected a softmax's "
            "output: pass the map of an attention that masks nothing"
        )
    scores = np.log(weights) - np.log(weights.max(1, keepdims=True))
    scores = np.round(scores[num_prefix_tokens:], 3)
    query = _start(scores, num_prefix_tokens)
    itself, row = num_prefix_tokens + query, _softmax(scores[query])
    used = np.exp(-(row * np.log(row)).sum())
    masked = _softmax(np.delete(scores[query], itself))
    finding = (
        f"The patch in row {query // columns + 1}, column {query % columns + 1} gives "
        f"{row[itself]:.2f} of its weight to itself, and uses {used:.1f} of {tokens} tokens. "
        f"With scores eight times as large, {_softmax(8 * scores[query])[itself]:.2f} goes to "
        f"itself. Forbidden to look at itself, and no sharper, it gives at most "
        f"{masked[num_prefix_tokens:].max():.2f} to another patch."
    )
    if task is None and _softmax(_SHARPNESS[-1] * scores[query])[itself] > _GOAL:
        task = (
            "Raise the sharpness until more than half of the weight falls on the patch itself. "
            "Then mask it. Who takes the weight? Now click other patches: which of them, "
            "sharpened, do not end at themselves?"
        )
    data = {
        "image": image_png(image), "alt": "the image that the model saw",
        "scores": scores.tolist(), "grid": [rows, columns], "size": list(image.shape[1:]),
        "prefix": num_prefix_tokens, "query": query, "sharpness": _SHARPNESS,
        "one": _SHARPNESS.index(1.0), "goal": _GOAL, "ramp": CIVIDIS, "task": task or "",
    }  # fmt: skip
    return Figure("locality_dial", data, title, description or at_the_start(finding))


def _start(scores: np.ndarray, prefix: int) -> int:
    """The patch that gives itself most when sharpened, of those that give it less than half now."""
    own = np.array([[_softmax(times * row)[prefix + i] for times in (1, _SHARPNESS[-1])]
                    for i, row in enumerate(scores)])  # fmt: skip
    return int(np.where(own[:, 0] < _GOAL, own[:, 1], 0).argmax())
