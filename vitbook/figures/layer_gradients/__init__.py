"""The blocks of an encoder as a ladder: how strongly a loss pulls at each before training."""

from collections.abc import Mapping, Sequence
from math import log10

import numpy as np

from vitbook.figures.layer_gradients.panels import SIZES, layout
from vitbook.figures.parts.axes import round_ticks
from vitbook.figures.parts.drawing import Number, as_array
from vitbook.figures.parts.figure import Figure, at_the_start

NORMS = {"pre": "Pre-LN", "post": "Post-LN"}
_HALF = 0.5  # of the gradient at the smallest depth: what the task asks for
_DEPTH = 12  # at the start, or the next smaller one
_PAD = 0.12  # decades beside the smallest and the largest gradient


def layer_gradients(
    gradients: Mapping,
    *,
    measured: str = "gradient of a block",
    task: str | None = None,
    title: str = "Depth weakens the gradient of Pre-LN's last block, and not that of Post-LN's",
    description: str | None = None,
) -> Figure:
    """Pre-LN and Post-LN as two ladders of blocks, whose height the reader drags.

    Each rung is a block, as long as its gradient on a logarithmic axis that stays. A curve joins
    the last blocks of all depths: the ladder's top rung ends on it. The task is reached at the
    smallest depth at which Pre-LN's last block has at most half of the gradient that the last block
    has at the smallest depth of all. After Xiong et al. 2020, figures 3 and 4.

    Args:
        gradients: ("pre" or "post", name of an initialisation) -> for each seed what
            ``gradients_by_depth`` of its chapter's study gives: depth -> norm of each block, from
            the input on. The same depths everywhere, in ascending order, and as many seeds. The
            first initialisation is shown at the start, at depth 12 or the next smaller one.
        measured: words at the axis.
    """
    names = list(dict.fromkeys(name for _, name in gradients))
    depths = [int(depth) for depth in next(iter(gradients.values()))[0]]
    drawn = [{norm: _spans(gradients[norm, name], depths) for norm in NORMS} for name in names]
    goals = [_goal(depths, each["pre"]) for each in drawn]
    free = [depth for depth in depths if depth != goals[0]]  # no end of the task
    start = max((depth for depth in free if depth <= _DEPTH), default=free[0])
    low, high, ticks = _axis(drawn)
    asked = (
        "Find the smallest depth at which the last block of Pre-LN has at most half of its "
        f"gradient at depth {depths[0]}. What has become of the last block of Post-LN there?"
    )
    data = {
        "depths": depths, "names": names, "norms": list(NORMS.values()), "axis": [low, high],
        "ticks": ticks, "gradients": [list(each.values()) for each in drawn], "goals": goals,
        "measured": measured, "layouts": [layout(depths, size) for size in SIZES],
        "start": {"depth": start, "initialisation": 0},
        "task": task if task is not None else asked if goals[0] else "",
    }  # fmt: skip
    finding = _finding(data, len(gradients["pre", names[0]]))
    return Figure("layer_gradients", data, title, description or at_the_start(finding))


def _spans(seeds: Sequence, depths: list[int]) -> list[dict]:
    """Of each depth the mean, smallest and largest gradient of each block, three digits of each."""
    found = []
    for depth in depths:
        rows = np.stack([as_array(seed[depth]) for seed in seeds]).astype(float)
        if rows.shape[1:] != (depth,) or not (rows > 0).all():
            raise ValueError(
                f"gradients of shape {rows.shape[1:]} came at depth {depth}: expected {depth} "
                "numbers over 0, one for each block, as the axis is logarithmic"
            )
        span = {
            key: [float(f"{each:.3g}") for each in numbers]
            for key, numbers in (
                ("mean", rows.mean(0)),
                ("low", rows.min(0)),
                ("high", rows.max(0)),
            )
        }
        found.append(span | {"told": told(span["mean"][-1])})
    return found


def _goal(depths: list[int], spans: list[dict]) -> int | None:
    """The first depth at which the last block has at most half of the gradient at the smallest."""
    first = spans[0]["mean"][-1]
    return next(
        (d for d, each in zip(depths, spans, strict=True) if each["mean"][-1] <= _HALF * first),
        None,
    )


def _axis(drawn: list[dict]) -> tuple[float, float, list]:
    """Ends of the axis as powers of ten, at least a decade apart, and its ticks."""
    panels = [norm for each in drawn for norm in each.values()]
    spans = [span for norm in panels for span in norm]
    marks = [_HALF * norm[0]["mean"][-1] for norm in panels]
    low = min(map(log10, marks + [value for span in spans for value in span["low"]])) - _PAD
    high = max(log10(value) for span in spans for value in span["high"]) + _PAD
    room = max(0.0, 1 - (high - low)) / 2
    low, high = round(low - room, 4), round(high + room, 4)
    ticks = round_ticks(10**low, 10**high, at_most=4)
    return low, high, [(round(log10(tick), 4), f"{tick:,.9g}") for tick in ticks]


def told(gradient: Number) -> str:
    """Three digits, as the page tells them: ``0.00583``, ``2.03``, ``125``."""
    return f"{gradient:#.3g}".rstrip(".") if 1e-4 <= gradient < 1e3 else f"{gradient:.2e}"


def _finding(data: dict, seeds: int) -> str:
    depths, start = data["depths"], data["start"]
    at, name = depths.index(start["depth"]), data["names"][start["initialisation"]]
    pre, post = (
        (each[0]["mean"][-1], each[at]["mean"][-1])
        for each in data["gradients"][start["initialisation"]]
    )
    return (
        f"Depth {start['depth']}, {name}. In Pre-LN the last block's gradient is {told(pre[1])}: "
        f"{pre[1] / pre[0]:.2f} of that at depth {depths[0]}. In Post-LN it is {told(post[1])}: "
        f"{post[1] / post[0]:.2f} of that at depth {depths[0]}.\nA bar is a block"
        + (
            f", the mean of {seeds} seeds; its line goes from the smallest seed to the largest. "
            if seeds > 1
            else ", of one seed. "
        )
        + "The curve of small dots joins the last blocks of all depths."
    )
