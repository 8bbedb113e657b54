"""Attention as a soft lookup that one can grab."""

from collections.abc import Sequence

import numpy as np

from vitbook.figures.parts.drawing import OKABE_ITO, as_array
from vitbook.figures.parts.figure import Figure, at_the_start


def _points(name: str, points, count: int | None = None) -> np.ndarray:
    points = as_array(points).astype(float)
    wanted = "(n, 2)" if count is None else f"({count}, 2)"
    if points.ndim != 2 or points.shape[1] != 2 or (count or len(points)) != len(points):
        raise ValueError(
            f"{name} came with shape {points.shape}, expected {wanted}: "
            "the figure draws a plane, so pass one 2-D row for each token"
        )
    if not np.isfinite(points).all():
        raise ValueError(f"{name} hold NaN or infinity, expected finite numbers: mend the rows")
    return points


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
        task: a sentence that asks for something to reach.
        goal: the name of the token whose weight must pass 0.95 for the task to be reached.
        description: the caption; by default the finding at the start, in words.
    """
    keys = _points("keys", keys)
    values = _points("values", values, len(keys))
    query = _points("the query", as_array(query).reshape(1, -1), 1)[0]
    names = [str(name) for name in names]
    if not 2 <= len(keys) <= len(OKABE_ITO) or len(names) != len(keys):
        raise ValueError(
            f"{len(keys)} keys came with {len(names)} names, expected two to {len(OKABE_ITO)} "
            "of each: give every key one name"
        )
    if goal is not None and goal not in names:
        raise ValueError(f"goal {goal!r} is no token, expected one of {', '.join(names)}")

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
