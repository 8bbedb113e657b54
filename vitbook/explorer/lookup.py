"""Attention as a soft lookup that one can grab."""

from collections.abc import Sequence

import numpy as np

from vitbook.explorer.drawing import OKABE_ITO, Number, as_array, drawing, png, rgb, tag, text
from vitbook.explorer.figure import Figure, at_the_start

_SIDE = 300


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


def _hull(points: np.ndarray) -> np.ndarray:
    """The corners of the convex hull in order, by Andrew's monotone chain."""

    def chain(ordered: list) -> list:
        corners = []
        for p in ordered:
            while (
                len(corners) > 1
                and np.linalg.det([corners[-1] - corners[-2], p - corners[-2]]) <= 0
            ):
                corners.pop()
            corners.append(p)
        return corners[:-1]

    ordered = sorted(points, key=tuple)
    return np.array(chain(ordered) + chain(ordered[::-1]))


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
    still = _still(data, finding)
    return Figure("soft_lookup.js", data, title, description or at_the_start(finding), still)


def _still(data: dict, finding: str) -> str:
    keys, values, query = (np.array(data[name]) for name in ("keys", "values", "query"))
    names, colors = data["names"], data["colors"]
    palette = np.stack([rgb(color) for color in colors])
    scores = keys @ query / np.sqrt(2)
    weights = _softmax(scores)
    output = weights @ values
    mixed = "#" + "".join(f"{round(c):02x}" for c in weights @ palette)

    def plane(points: np.ndarray, reach: float, left: Number) -> np.ndarray:
        unit = _SIDE / 2 / reach
        return np.array([left + _SIDE / 2, _SIDE / 2 + 24]) + points * [unit, -unit]

    def dot(at: np.ndarray, color: str, name: str, middle: np.ndarray) -> str:
        """A labelled disc; the label stands on the side away from the origin."""
        mark = tag("circle", cx=at[0], cy=at[1], r=6, fill=color, stroke="currentColor")
        left, above = at < middle
        return mark + text(at[0] + (-10 if left else 10), at[1] + (-6 if above else 16), name,
                           font_weight=600, text_anchor="end" if left else "start")  # fmt: skip

    def ring(at: np.ndarray, name: str) -> str:
        """What moves: filled with the mixture of all colours."""
        mark = tag("circle", cx=at[0], cy=at[1], r=9, fill=mixed, stroke="currentColor",
                   stroke_width=2.5)  # fmt: skip
        return mark + text(at[0], at[1] + 26, name, font_weight=600, text_anchor="middle")

    def line(start: np.ndarray, end: np.ndarray, color: str, width: Number) -> str:
        return tag("line", x1=start[0], y1=start[1], x2=end[0], y2=end[1], stroke=color,
                   stroke_width=width, stroke_linecap="round")  # fmt: skip

    ticks = np.linspace(data["reach"][0], -data["reach"][0], 24)
    places = np.stack(np.meshgrid(-ticks, ticks), axis=-1)
    tint = (_softmax(places @ keys.T / np.sqrt(2)) @ palette).astype(np.uint8)
    parts = []
    for left, words in ((0, "where you ask: keys and query"), (_SIDE + 20, "what you get: values")):
        parts += [text(left, 14, words, font_weight=600)]
        if not left:
            parts += [tag("image", href=png(tint), y=24, width=_SIDE, height=_SIDE, opacity=0.3)]
        parts += [tag("rect", x=left, y=24, width=_SIDE, height=_SIDE, fill="none",
                      stroke="currentColor", opacity=0.3)]  # fmt: skip
    at = plane(keys, data["reach"][0], 0)
    origin = plane(np.zeros(2), data["reach"][0], 0)
    asked = plane(query, data["reach"][0], 0)
    parts += [line(origin, place, color, 2) for place, color in zip(at, colors, strict=True)]
    parts += [dot(*each, origin) for each in zip(at, colors, names, strict=True)]
    parts += [line(origin, asked, "currentColor", 2), ring(asked, "query")]
    held = plane(values, data["reach"][1], _SIDE + 20)
    got = plane(output, data["reach"][1], _SIDE + 20)
    corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in _hull(held))
    parts += [tag("polygon", points=corners, fill="currentColor", fill_opacity=0.05,
                  stroke="currentColor", stroke_dasharray="4 4")]  # fmt: skip
    parts += [line(got, p, c, 12 * w) for p, c, w in zip(held, colors, weights, strict=True)]
    middle = plane(np.zeros(2), data["reach"][1], _SIDE + 20)
    parts += [dot(*each, middle) for each in zip(held, colors, names, strict=True)]
    parts += [ring(got, "output")]
    for i, name in enumerate(names):
        y = _SIDE + 46 + 22 * i
        parts += [
            text(0, y + 11, name, font_weight=600),
            text(110, y + 11, f"{scores[i]:.2f}".replace("-", "−"), text_anchor="end"),
            tag("rect", x=130, y=y, width=400 * weights[i], height=14, fill=colors[i]),
            text(620, y + 11, f"{weights[i]:.3f}", text_anchor="end"),
        ]
    height = _SIDE + 46 + 22 * len(names)
    return drawing(2 * _SIDE + 20, height, finding, *parts)
