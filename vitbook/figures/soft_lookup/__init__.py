"""Attention as a soft lookup that one can grab."""

from collections.abc import Sequence

import numpy as np

from vitbook.figures.parts.drawing import OKABE_ITO, as_array
from vitbook.figures.parts.figure import Figure, at_the_start


def _softmax(scores: np.ndarray) -> np.ndarray:
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def _reach(*points: np.ndarray) -> float:
    return float(max(1.3 * max(np.abs(p).max() for p in points), 0.1))


def soft_lookup(
    keys,
    values,
    query,
    names: Sequence[str] = "ABCD",
    *,
    task: str = "",
    goal: str | None = None,
    title: str = "Attention answers with a mixture of what it holds",
    description: str | None = None,
) -> Figure:
    """A query one can drag over a plane of keys, and the mixture of values it gets.

    Args:
        keys: one 2-D row for each token, "n 2".
        values: what each token holds, "n 2".
        query: where the query starts, two numbers.
        names: one short name for each token.
        goal: the name of the token whose weight must pass 0.95 for the task to be reached.
    """
    keys, values, query = (as_array(each).astype(float) for each in (keys, values, query))
    if keys.shape[1:] != (2,) or values.shape != keys.shape:
        raise ValueError(
            f"keys came with shape {keys.shape} and values with {values.shape}, expected (n, 2): "
            "the figure draws a plane, so pass one 2-D row for each token"
        )
    names = [str(name) for name in names]
    colors = OKABE_ITO[: len(keys)]
    data = {
        "keys": keys.tolist(), "values": values.tolist(), "query": query.tolist(),
        "names": names, "colors": colors, "reach": [_reach(keys, query), _reach(values)],
        "task": task, "goal": None if goal is None else names.index(goal),
    }  # fmt: skip
    weights = _softmax(keys @ query / np.sqrt(2))
    most = int(weights.argmax())
    finding = (
        f"The query at ({query[0]:g}, {query[1]:g}) puts {weights[most]:.2f} of its weight on "
        f"{names[most]}; the output is the weighted mean of all values and never leaves the "
        "outline around them. Sharpness multiplies the scores before the softmax."
    )
    return Figure("soft_lookup", data, title, description or at_the_start(finding))
