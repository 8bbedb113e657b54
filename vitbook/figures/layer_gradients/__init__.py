"""The blocks of an encoder as a ladder: how strongly a loss pulls at each before training."""

from collections.abc import Mapping, Sequence
from math import isfinite, log10

import numpy as np

from vitbook.errors import UnknownNameError, is_whole_number
from vitbook.figures.layer_gradients.panels import SIZES, layout
from vitbook.figures.parts.axes import round_ticks
from vitbook.figures.parts.drawing import Number, as_array
from vitbook.figures.parts.figure import Figure, at_the_start

NORMS = {"pre": "Pre-LN", "post": "Post-LN"}
_HALF = 0.5  # of the gradient at the smallest depth: what the task asks for
_DEPTH = 12  # at the start, or the next smaller one
_MOST = 48  # blocks that can be told apart in a drawing
_PAD = 0.12  # decades beside the smallest and the largest gradient


def layer_gradients(
    gradients: Mapping,
    *,
    initialisation: str | None = None,
    depth: int | None = None,
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
            the input on. The same depths everywhere, in ascending order, and as many seeds.
        initialisation: shown at the start; by default the first one.
        depth: at the start; by default 12, or the next smaller one.
        measured: words at the axis.
        task: a sentence above the figure; by default one that asks for such a depth, if there is
            one with the initialisation of the start.
        description: the caption; by default the finding at the start, and how to read it.

    Raises:
        TypeError: gradients that are no numbers.
        ValueError: nothing to draw; a norm without its rival; other depths or seeds in one place
            than in another; depths that do not ascend; more or fewer numbers than blocks; a
            gradient that is not positive and finite; a depth at the start that was not measured,
            or at which the task is reached.
        UnknownNameError: a norm or an initialisation that is not there.
    """
    names = _names(gradients)
    depths = _depths(gradients)
    drawn = [
        {norm: _spans(gradients[norm, name], depths, f"{NORMS[norm]}, {name}") for norm in NORMS}
        for name in names
    ]
    if initialisation is not None and initialisation not in names:
        raise UnknownNameError("initialisation", initialisation, names)
    first = names.index(initialisation) if initialisation is not None else 0
    goals = [_goal(depths, each["pre"]) for each in drawn]
    start = _start(depths, depth, goals[first])
    low, high, ticks = _axis(drawn)
    asked = (
        "Find the smallest depth at which the last block of Pre-LN has at most half of its "
        f"gradient at depth {depths[0]}. What has become of the last block of Post-LN there?"
    )
    data = {
        "depths": depths, "names": names, "norms": list(NORMS.values()), "axis": [low, high],
        "ticks": ticks, "gradients": [list(each.values()) for each in drawn], "goals": goals,
        "measured": measured, "layouts": [layout(depths, size) for size in SIZES],
        "start": {"depth": start, "initialisation": first},
        "task": task if task is not None else asked if goals[first] else "",
    }  # fmt: skip
    finding = _finding(data, len(gradients["pre", names[0]]))
    return Figure(
        "layer_gradients", data, title, description or at_the_start(finding),
    )  # fmt: skip


def _names(gradients: Mapping) -> list[str]:
    """The initialisations, each of which has both norms."""
    if not gradients:
        raise ValueError(
            "no gradients came: expected those of ('pre', name) and ('post', name), for at least "
            "one name of an initialisation"
        )
    for key in gradients:
        if not isinstance(key, tuple) or len(key) != 2:
            raise ValueError(
                f"gradients of {key!r} came: expected pairs such as ('pre', 'Xavier') as keys"
            )
        if key[0] not in NORMS:
            raise UnknownNameError("norm", key[0], NORMS)
    names = list(dict.fromkeys(name for _, name in gradients))
    for name in names:
        if lacking := [norm for norm in NORMS if (norm, name) not in gradients]:
            raise ValueError(
                f"initialisation {name!r} has no {lacking[0]!r}: expected both norms, which stand "
                "side by side"
            )
    return [str(name) for name in names]


def _depths(gradients: Mapping) -> list[int]:
    """The depths, which all seeds of all share."""
    first, count = None, None
    for (norm, name), seeds in gradients.items():
        where = f"{NORMS[norm]}, {name}"
        if not len(seeds) or (count is not None and len(seeds) != count):
            want = "at least one" if count is None else f"{count} as before"
            raise ValueError(f"{len(seeds)} seeds of {where}: expected {want}")
        count = len(seeds)
        for seed in seeds:
            depths = list(seed)
            if first is None:
                first = _checked(depths)
            if depths != first:
                raise ValueError(
                    f"{where} was measured at depths {_listed(depths)}: expected {_listed(first)}, "
                    "as the others"
                )
    return [int(depth) for depth in first]


def _checked(depths: list) -> list:
    good = all(is_whole_number(depth) and 1 <= depth <= _MOST for depth in depths)
    if not good or len(depths) < 2 or sorted(set(depths)) != depths:
        raise ValueError(
            f"depths came as {_listed(depths)}: expected at least two whole numbers from 1 to "
            f"{_MOST} in ascending order, such as 1, 4, 12"
        )
    return depths


def _listed(depths: Sequence) -> str:
    return ", ".join(map(str, depths)) or "none"


def _spans(seeds: Sequence, depths: list[int], where: str) -> list[dict]:
    """Of each depth the mean, smallest and largest gradient of each block, three digits of each."""
    found = []
    for depth in depths:
        rows = [_row(seed[depth], depth, where) for seed in seeds]
        rows = np.stack(rows).astype(float)
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


def _row(gradients, depth: int, where: str) -> np.ndarray:
    """One number for each block."""
    row = as_array(gradients)
    if row.shape != (depth,):
        came = f"{row.size} gradients" if row.ndim == 1 else f"gradients of shape {row.shape}"
        raise ValueError(
            f"{where} came with {came} at depth {depth}: expected {depth}, one for each block"
        )
    if row.dtype.kind not in "fiu":
        raise TypeError(f"{where} at depth {depth} came as {row.tolist()}: expected numbers")
    if not all(isfinite(each) and each > 0 for each in row.tolist()):
        raise ValueError(
            f"{where} at depth {depth} has gradients {_listed(row.tolist())}: expected finite ones "
            "over 0, which have a place on a logarithmic axis"
        )
    return row


def _goal(depths: list[int], spans: list[dict]) -> int | None:
    """The first depth at which the last block has at most half of the gradient at the smallest."""
    first = spans[0]["mean"][-1]
    return next(
        (d for d, each in zip(depths, spans, strict=True) if each["mean"][-1] <= _HALF * first),
        None,
    )


def _start(depths: list[int], depth: int | None, goal: int | None) -> int:
    if depth is None:
        free = [each for each in depths if each != goal]
        return max((each for each in free if each <= _DEPTH), default=free[0])
    if depth not in depths:
        raise ValueError(
            f"depth {depth!r} at the start was not measured: expected one of {_listed(depths)}"
        )
    if depth == goal:
        raise ValueError(f"at depth {depth} the task is reached before it begins: expected another")
    return int(depth)


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
        + "The curve of small dots joins the last blocks of all depths. An upright curve in "
        "Pre-LN would refute the title."
    )
