"""Channels rounded to a grid of few values: one step for all of them, or a step for each."""

from collections.abc import Sequence
from statistics import median_low
from typing import NamedTuple

import numpy as np
import torch

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
    """
    values = as_array(values).astype(np.float32)
    tokens, channels = values.shape
    if tokens > _MOST_TOKENS or channels > _MOST_CHANNELS:
        raise ValueError(
            f"{tokens:,} tokens of {channels:,} channels came, expected up to {_MOST_TOKENS:,} "
            f"of {_MOST_CHANNELS}, which a page can draw: pass some of them"
        )
    names = [f"channel {i}" for i in range(channels)] if names is None else [str(n) for n in names]
    order = np.argsort(-np.abs(values).max(0), kind="stable")
    channels, names = np.ascontiguousarray(values.T[order]), [names[i] for i in order]
    if goal is not None:
        task = task or (
            f"With {bits} bits and one step for all channels, find how far {names[0]} must be "
            f"scaled down until the median channel uses at least {goal} codes."
        )
    largest = float(np.abs(channels[0]).max())
    data = {
        "values": base64(channels), "names": names, "bits": bits,
        "reach": _MARGIN * largest, "margin": _MARGIN, "goal": goal,
        "scales": [_SCALES[0], _SCALES[-1], _SCALES.step], "colors": _COLORS, "legend": _LEGEND,
        "task": task or "",
    }  # fmt: skip
    shared = _round(channels, bits, each=False)
    finding = _finding(names[0], bits, shared, _round(channels, bits, each=True))
    return Figure("rounding_grid", data, title, description or at_the_start(finding))


def _round(channels: np.ndarray, bits: int, *, each: bool) -> _Rounded:
    """Channels "channels tokens", rounded with a step for each or one for all."""
    values = torch.from_numpy(channels)
    found = quantize(values, bits, dim=1 if each else None)
    change = (found.values.double() - values.double()).square().mean(1).sqrt()
    size = values.double().square().mean(1).sqrt()
    error = (100 * change / size).nan_to_num()
    return _Rounded([len(codes.unique()) for codes in found.codes], error.tolist())


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
