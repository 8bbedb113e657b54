"""Channels rounded to a grid of few values: one step for all of them, or a step for each."""

from collections.abc import Sequence
from math import floor, log10
from typing import NamedTuple

import numpy as np

from vitbook.errors import is_whole_number
from vitbook.explorer.drawing import Number, as_array, base64, drawing, png, tag, text
from vitbook.explorer.figure import Figure, at_the_start

_MOST_CHANNELS, _MOST_TOKENS = 32, 1024
_SCALES = range(10, 301, 5)  # of the loudest channel, in percent
_MARGIN = 1.25  # where the number line ends, in largest absolute values
# What a pixel of a strip shows: nothing, a line of the grid, a grid too fine for lines, one, two
# and more values, a rounded value.
_COLORS = ((0, 0, 0, 0), (86, 180, 233, 190), (86, 180, 233, 70), (128, 128, 128, 120),
           (128, 128, 128, 180), (128, 128, 128, 230), (213, 94, 0, 255))  # fmt: skip
_LEGEND = "Above, grey: values. Below, orange: rounded. Blue: the grid."
_LINE, _BAND, _VALUE, _ROUNDED = 1, 2, 3, 6
_GAP, _WIDE_GAP = 3, 5  # px between lines that can be seen, and between marks that may be wide


class _Rounded(NamedTuple):
    """Channels after rounding: codes "channels tokens", the others "channels"."""

    codes: np.ndarray
    step: np.ndarray
    used: np.ndarray
    error: np.ndarray  # in percent of the channel's root mean square


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
    shared = round_channels(channels, bits, each=False)
    finding = _finding(names[0], bits, shared, round_channels(channels, bits, each=True))
    still = _still(data, channels, shared, finding)
    return Figure("rounding_grid.js", data, title, description or at_the_start(finding), still)


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


def round_channels(channels: np.ndarray, bits: int, *, each: bool) -> _Rounded:
    """Channels "channels tokens" in float32, rounded with a step for each or one for all."""
    most = 2 ** (bits - 1) - 1
    largest = np.abs(channels).max(1 if each else None, keepdims=True)
    step = np.maximum(largest / np.float32(most), np.finfo(np.float32).tiny)
    codes = np.clip(np.rint(channels / step), -most, most).astype(np.int8)
    change = (codes * step).astype(np.float64) - channels
    size = np.sqrt(np.square(channels.astype(np.float64)).mean(1))
    error = 100 * np.sqrt(np.square(change).mean(1)) / np.where(size > 0, size, 1)
    used = np.array([len(np.unique(row)) for row in codes])
    return _Rounded(codes, np.broadcast_to(step[:, 0], len(channels)), used, error)


def scaled(channels: np.ndarray, percent: int) -> np.ndarray:
    """The channels with the first one louder or quieter."""
    return np.concatenate([channels[:1] * np.float32(percent / 100), channels[1:]])


def median(numbers: np.ndarray) -> Number:
    """The lower of the two in the middle of an even number."""
    return np.sort(numbers)[(len(numbers) - 1) // 2].item()


def _check_goal(goal, channels: np.ndarray, bits: int) -> None:
    if not is_whole_number(goal):
        raise ValueError(f"goal came as {goal!r}, expected a whole number of codes")

    def codes(percent: int) -> int:
        return median(round_channels(scaled(channels, percent), bits, each=False).used)

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
    return (
        f"With {bits} bits there are {2**bits - 1} codes. One step for all channels has to reach "
        f"the largest absolute value, which is in {loudest}: the median channel uses "
        f"{median(shared.used)} codes, with an error of {percent(median(shared.error))}. With a "
        f"step for each channel it uses {median(own.used)}, with an error of "
        f"{percent(median(own.error))}."
    )


def strip(
    values: np.ndarray, codes: np.ndarray, step: Number, bits: int, reach: Number, width: int,
    ratio: Number,
) -> np.ndarray:  # fmt: skip
    """What the pixels of a channel show, "2 width": its values above, what they become below.

    Args:
        reach: absolute value at either end of the number line.
        ratio: pixels of the strip for one on the page.
    """
    most = 2 ** (bits - 1) - 1

    def at(numbers) -> np.ndarray:
        places = np.floor(width * (1 + np.asarray(numbers, np.float64) / reach) / 2)
        return np.clip(places, 0, width - 1).astype(int)

    shown, apart = np.zeros((2, width), np.uint8), width * step / reach / 2 / ratio
    if apart >= _GAP:
        shown[:, at(np.arange(-most, most + 1) * step)] = _LINE
    else:
        first, last = at([-most * step, most * step])
        shown[:, first : last + 1] = _BAND
    places, counts = np.unique(at(values), return_counts=True)
    shown[0, places] = _VALUE - 1 + np.minimum(counts, 3)
    marks = at(np.unique(codes) * step)
    one = round(ratio)
    for side in range(-one, 2 * one) if apart >= _WIDE_GAP else range(one):
        shown[1, np.clip(marks + side, 0, width - 1)] = _ROUNDED
    return shown


def tick(reach: Number) -> float:
    """The number 1, 2 or 5, times a power of ten, that stands well inside the line."""
    most = 0.8 * reach
    ten = 10.0 ** floor(log10(most))
    return next(first * ten for first in (5, 2, 1) if first * ten <= most)


def _still(data: dict, channels: np.ndarray, shared: _Rounded, words: str) -> str:
    """A strip a channel, and its two numbers."""
    left, wide, high, top, bits, reach = 96, 440, 20, 26, data["bits"], data["reach"]
    codes, errors = left + wide + 44, left + wide + 100
    colors = np.array(_COLORS)
    parts = [
        text(left, 14, data["legend"]),
        text(codes, 14, "codes", text_anchor="end"), text(errors, 14, "error", text_anchor="end"),
    ]  # fmt: skip
    for i, name in enumerate(data["names"]):
        y, step = top + high * i, float(shared.step[i])
        shown = strip(channels[i], shared.codes[i], step, bits, reach, wide, 1)
        parts += [
            text(left - 8, y + 14, name if len(name) < 16 else f"{name[:14]}…", text_anchor="end"),
            tag(
                "image",
                href=png(np.repeat(shown, high - 2, axis=0), colors),
                x=left,
                y=y + 1,
                width=wide,
                height=high - 2,
                preserveAspectRatio="none",
            ),
            text(codes, y + 14, str(shared.used[i]), text_anchor="end"),
            text(errors, y + 14, percent(shared.error[i]), text_anchor="end"),
        ]
    foot, far = top + high * len(channels), tick(reach)
    for number in (-far, 0, far):
        x = left + wide * (1 + number / reach) / 2
        parts.append(text(x, foot + 14, f"{number:g}".replace("-", "−"), text_anchor="middle"))
    # Its class tells a link to a state which figures of a page are of this kind.
    return drawing(errors + 4, foot + 20, words, tag("g", *parts, class_="vb-rounds"))
