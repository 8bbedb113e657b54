"""Channels rounded to a grid of few values: one step for all of them, or a step for each."""

from collections.abc import Sequence
from statistics import median_low
from typing import NamedTuple

import numpy as np
import torch

from vitbook.errors import is_whole_number
from vitbook.figures.parts.drawing import Number, as_array, base64
from vitbook.figures.parts.figure import Figure, at_the_start
from vitbook.layers.quantizers import quantize

_MOST_CHANNELS, _MOST_TOKENS = 32, 1024
_SCALES = range(10, 301, 5)  # of the loudest channel, in percent
_MARGIN = 1.25  # where the number line ends, in largest absolute values
# What a pixel of a strip shows: nothing, a line of the grid, a grid too fine for lines, one, two
# and more values, a rounded value.
_COLORS = ((0, 0, 0, 0), (86, 180, 233, 190), (86, 180, 233, 70), (128, 128, 128, 120),
           (128, 128, 128, 180), (128, 128, 128, 230), (213, 94, 0, 255))  # fmt: skip
_LEGEND = "Above, grey: values. Below, orange: rounded. Blue: the grid."


class _Rounded(NamedTuple):
    """Of each channel after rounding."""

    used: list[int]  # codes
    error: list[float]  # in percent of the channel's root mean square


def rounding_grid(
    values,
    *,
    names: Sequence[str] | None = None,
    bits: int = 8,
    goal: int | None = None,
    task: str | None = None,
    title: str = "One loud channel takes the codes of all channels that share its step",
    description: str | None = None,
) -> Figure:
    """Channels on one number line, and the grid of few values that each is rounded to.

    Rounds as :func:`vitbook.layers.quantize` does, with one step for all channels or a step for
    each. Of each channel it tells how many codes its values use, and its error: the root mean
    square of what rounding changes, in percent of the channel's root mean square. The reader
    scales the loudest channel. A median is the lower of the two in the middle, as torch has it.

    Args:
        values: "tokens channels", floating point: 1 to 1,024 tokens of 2 to 32 channels.
        names: of the channels; by default "channel 0" and so on.
        bits: of a code at the start, 2 to 8; then all channels share one step.
        goal: number of codes. The task is reached while the median channel uses at least as many,
            with these bits and one step for all.
        task: a sentence above the figure; by default one that asks for the goal, if there is one.
        description: the caption; by default the finding at the start, in words.

    Raises:
        TypeError: values that are no floating point.
        ValueError: values of another shape, all zero, NaN or infinite; as many names as there are
            no channels; other bits; a goal that is reached at the start, or cannot be reached.
    """
    values = _checked(values)
    if not is_whole_number(bits) or not 2 <= bits <= 8:
        raise ValueError(f"{bits!r} bits: expected a whole number from 2 to 8")
    count = values.shape[1]
    names = [f"channel {i}" for i in range(count)] if names is None else [str(n) for n in names]
    if len(names) != count:
        raise ValueError(f"{len(names)} names came, expected {count}: one for each channel")
    order = np.argsort(-np.abs(values).max(0), kind="stable")
    channels, names = np.ascontiguousarray(values.T[order]), [names[i] for i in order]
    bits = int(bits)
    if goal is not None:
        _check_goal(goal, channels, bits)
        task = task or (
            f"With {bits} bits and one step for all channels, find how far {names[0]} must be "
            f"scaled down until the median channel uses at least {goal} codes."
        )
    largest = float(np.abs(channels[0]).max())
    data = {
        "values": base64(channels), "names": names, "bits": bits,
        "reach": _MARGIN * largest, "margin": _MARGIN, "goal": goal if goal is None else int(goal),
        "scales": [_SCALES[0], _SCALES[-1], _SCALES.step], "colors": _COLORS, "legend": _LEGEND,
        "task": task or "",
    }  # fmt: skip
    shared = _round(channels, bits, each=False)
    finding = _finding(names[0], bits, shared, _round(channels, bits, each=True))
    return Figure("rounding_grid", data, title, description or at_the_start(finding))


def _checked(values) -> np.ndarray:
    """The values in float32, in which the page computes."""
    values = as_array(values)
    if values.dtype.kind != "f":
        raise TypeError(
            f"values came as {values.dtype}, expected floating point: pass what a layer gives"
        )
    if values.ndim != 2:
        raise ValueError(
            f"values came with shape {values.shape}, expected (tokens, channels): put the tokens "
            "of all images into one axis"
        )
    tokens, channels = values.shape
    if not (1 <= tokens <= _MOST_TOKENS and 2 <= channels <= _MOST_CHANNELS):
        raise ValueError(
            f"{tokens:,} tokens of {channels:,} channels came, expected 1 to {_MOST_TOKENS:,} "
            f"tokens of 2 to {_MOST_CHANNELS} channels, which a page can draw: pass some of them"
        )
    with np.errstate(over="ignore"):
        values = values.astype(np.float32)
        fine = np.isfinite(_SCALES[-1] / 100 * values).all()
    if not fine:
        raise ValueError(
            "the values hold NaN, infinity or numbers beyond float32: expected finite ones"
        )
    if not values.any():
        raise ValueError("the values are all zero, which no grid rounds: expected some that differ")
    return values


def _round(channels: np.ndarray, bits: int, *, each: bool) -> _Rounded:
    """Channels "channels tokens", rounded with a step for each or one for all."""
    values = torch.from_numpy(channels)
    found = quantize(values, bits, dim=1 if each else None)
    change = (found.values.double() - values.double()).square().mean(1).sqrt()
    size = values.double().square().mean(1).sqrt()
    error = (100 * change / size).nan_to_num()
    return _Rounded([len(codes.unique()) for codes in found.codes], error.tolist())


def _scaled(channels: np.ndarray, percent: int) -> np.ndarray:
    """The channels with the first one louder or quieter."""
    return np.concatenate([channels[:1] * np.float32(percent / 100), channels[1:]])


def _check_goal(goal, channels: np.ndarray, bits: int) -> None:
    if not is_whole_number(goal):
        raise ValueError(f"goal came as {goal!r}, expected a whole number of codes")

    def codes(percent: int) -> int:
        return median_low(_round(_scaled(channels, percent), bits, each=False).used)

    start, best = codes(100), max(map(codes, _SCALES))
    if not start < goal <= best:
        can = f"a goal from {start + 1} to {best}" if best > start else "no goal with these values"
        raise ValueError(
            f"goal came as {goal} codes; the median channel uses {start} at the start and at most "
            f"{best} when the loudest channel is scaled: expected {can}"
        )


def percent(error: Number) -> str:
    return f"{error:.0f} %" if error >= 10 else f"{error:.1f} %"


def _finding(loudest: str, bits: int, shared: _Rounded, own: _Rounded) -> str:
    used, error = (median_low(each) for each in shared)
    used_alone, error_alone = (median_low(each) for each in own)
    return (
        f"With {bits} bits there are {2**bits - 1} codes. One step for all channels has to reach "
        f"the largest absolute value, which is in {loudest}: the median channel uses {used} codes, "
        f"with an error of {percent(error)}. With a step for each channel it uses {used_alone}, "
        f"with an error of {percent(error_alone)}."
    )
