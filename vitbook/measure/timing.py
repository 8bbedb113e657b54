"""Speed as a ratio of neighbours in time."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from vitbook.devices import choose_device, synchronize
from vitbook.extras import from_extra


@dataclass(frozen=True)
class Ratio:
    """How many times as fast A is as B: the median over pairs, and its 95 % interval."""

    median: float
    low: float
    high: float
    pairs: int

    def __str__(self) -> str:
        return f"{self.median:.3f} [{self.low:.3f}, {self.high:.3f}] over {self.pairs} pairs"

    def __mul__(self, factor: float | int) -> "Ratio":
        return Ratio(self.median * factor, self.low * factor, self.high * factor, self.pairs)


def compare_speed(
    a: Callable[[], object], b: Callable[[], object], pairs: int = 20, warmup: int = 3
) -> Ratio:
    """Speed of ``a`` over that of ``b``, in interleaved pairs on the same machine.

    Above 1, ``a`` is faster. Absolute times are not given: on a shared machine they mean nothing,
    the ratio of two neighbours in time does.
    """
    seconds = interleaved_seconds([a, b], pairs, warmup)
    return ratio_of(seconds[1], seconds[0])


def interleaved_seconds(
    functions: Sequence[Callable[[], object]],
    rounds: int = 20,
    warmup: int = 3,
    label: str = "",
    clock: Callable[[], float] = time.perf_counter,
) -> Float[np.ndarray, "functions rounds"]:
    """Wall time of each function in each round; a GPU's work is waited for.

    Every second round runs backwards: whoever goes later may find the caches warm. With a label
    a bar shows the progress under that name. On a machine that others keep busy, the clock
    ``time.process_time`` counts what one thread computes and not how long it waits for a core.
    """
    for _ in range(warmup):
        for function in functions:
            function()
    seconds = np.empty((len(functions), rounds))
    device = choose_device()
    indices = range(rounds)
    if label:
        with from_extra("data"):
            from tqdm import tqdm
        indices = tqdm(indices, label, leave=False)
    for index in indices:
        turns = range(len(functions))
        for turn in turns if index % 2 == 0 else reversed(turns):
            synchronize(device)
            start = clock()
            functions[turn]()
            synchronize(device)
            seconds[turn, index] = clock() - start
    return seconds


def ratio_of(above: Float[np.ndarray, " rounds"], below: Float[np.ndarray, " rounds"]) -> Ratio:
    """The median of the quotients, round by round; the interval is a bootstrap of the median."""
    # scipy's bootstrap says the same in as many lines, and timing would have to depend on scipy.
    quotients = above / below
    pairs = len(quotients)
    draws = np.random.default_rng(0).choice(quotients, size=(10_000, pairs))
    low, high = np.quantile(np.median(draws, axis=1), [0.025, 0.975])
    return Ratio(float(np.median(quotients)), float(low), float(high), pairs)
