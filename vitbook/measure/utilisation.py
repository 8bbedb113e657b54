"""How many images a second, and what share of the device's arithmetic that is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from vitbook.measure.timing import Ratio, interleaved_seconds, ratio_of

SIDES = {"cpu": (512, 1024, 2048), "cuda": (2048, 4096, 8192)}


@dataclass(frozen=True)
class Work:
    """Something that is timed.

    Attributes:
        run: one batch.
        images: in the batch.
        macs: of the batch.
    """

    run: Callable[[], object]
    images: int
    macs: int


@dataclass(frozen=True)
class Throughput:
    """How fast a piece of work went.

    Attributes:
        images_per_second: the median over rounds. On a machine shared with others it means
            little; the two ratios do.
        utilisation: multiply-adds a second, over those of the square matrix product that ran in
            the same rounds.
        speed: over that of the first piece of work, in the same rounds.
    """

    images_per_second: float
    utilisation: Ratio
    speed: Ratio


class Matmul:
    """A product of two square matrices: the most arithmetic that a device is seen to do.

    Among a few side lengths, the one with the most multiply-adds a second is used.

    Raises:
        ValueError: a device of another kind than those whose sides were chosen.
    """

    def __init__(self, device: str | torch.device, dtype: torch.dtype = torch.float32):
        device = torch.device(device)
        if device.type not in SIDES:
            raise ValueError(f"device {device}: expected {' or '.join(SIDES)}")
        sides = SIDES[device.type]
        factors = {side: torch.ones(side, side, dtype=dtype, device=device) for side in sides}
        products = [lambda x=x: x @ x for x in factors.values()]
        seconds = interleaved_seconds(products, rounds=5, warmup=2).min(axis=1)
        rates = [side**3 / time for side, time in zip(factors, seconds, strict=True)]
        self.side = list(factors)[int(np.argmax(rates))]
        self.factor = factors[self.side]

    def __call__(self) -> torch.Tensor:
        return self.factor @ self.factor

    @property
    def macs(self) -> int:
        return self.side**3


def measure_throughput(
    works: Sequence[Work], matmul: Matmul, rounds: int = 20, warmup: int = 3, label: str = ""
) -> tuple[list[Throughput], float]:
    """Time pieces of work and a matrix product in turn, all in every round.

    Args:
        works: what is timed; the speed of each is also told over that of the first.
        matmul: on the device and in the precision of the work.
        rounds: over which medians and intervals are taken.
        warmup: rounds before that are not counted.
        label: of a bar that shows the progress; none if empty.

    Returns:
        For each piece of work its throughput; and the multiply-adds a second of the product, the
        median over rounds.

    Raises:
        ValueError: no work, or fewer than two rounds.
    """
    if not works or rounds < 2:
        raise ValueError(f"{len(works)} pieces of work, {rounds} rounds: expected some, and two")
    runs = [matmul, *(work.run for work in works)]
    peak, *seconds = interleaved_seconds(runs, rounds, warmup, label)
    found = [
        Throughput(
            images_per_second=work.images / float(np.median(mine)),
            utilisation=ratio_of(peak, mine) * (work.macs / matmul.macs),
            speed=ratio_of(seconds[0] / works[0].images, mine / work.images),
        )
        for work, mine in zip(works, seconds, strict=True)
    ]
    return found, matmul.macs / float(np.median(peak))
