"""What one model gains on another, and how far luck could carry it."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from vitbook.errors import is_whole_number
from vitbook.extras import from_extra
from vitbook.runs.rows import LedgerError, Result


@dataclass(frozen=True)
class Gain:
    """Points of accuracy, and the ends of their 95 % interval.

    Attributes:
        seeds: that both models have.
    """

    mean: float
    low: float
    high: float
    seeds: tuple[int, ...]

    def __str__(self) -> str:
        told = f"{self.mean:+.1f} ({self.low:+.1f} to {self.high:+.1f})"
        return told.replace("-", "−")

    def verdict(self, claimed: int) -> str:
        """Of a claim that the gain is above 0 (``claimed`` 1) or below (-1)."""
        if claimed not in (1, -1):
            raise ValueError(f"claimed {claimed!r}: expected 1 for a gain, or -1 for a loss")
        if self.low <= 0 <= self.high:
            return "undecided"
        return "agrees" if (self.mean > 0) == (claimed > 0) else "contradicts"


def gain(rows: Sequence[Result], model: str, baseline: str, held_out: int) -> Gain | None:
    """The gain of a model on a baseline in the seeds that both have; None if they share none.

    With several seeds the interval is Student's t for two means, and covers the seeds: they are
    not paired, as one seed draws different weights for two models. With one seed, or where all
    seeds of a model agree to the image, there is no luck of seeds to be seen: it is then that of
    two shares of ``held_out`` images, and covers the choice of these images alone. The two are
    taken as independent, which makes it wide. A share of 0 or 1 counts as half an image off it.

    Args:
        rows: runs that differ in nothing but model and seed.
        held_out: images that an accuracy was measured on.

    Raises:
        LedgerError: a seed has two rows of one model.
        ValueError: no held-out images.

    Example:
        >>> from vitbook import runs
        >>> rows = [row for row in runs.read() if row.experiment == "poster"]
        >>> found = runs.gain(rows, "resnet20", "vit_mini_patch4_32", 10_000)
        >>> found.low > 5, found.verdict(1)
        (True, 'agrees')
    """
    if not is_whole_number(held_out) or held_out < 1:
        raise ValueError(f"{held_out!r} held-out images: expected at least 1, a whole number")
    ours, theirs = (_by_seed(rows, name) for name in (model, baseline))
    seeds = tuple(sorted(ours.keys() & theirs.keys()))
    if not seeds:
        return None
    first, second = ([side[seed] for seed in seeds] for side in (ours, theirs))
    mean = sum(first) / len(seeds) - sum(second) / len(seeds)
    if len(set(first)) == len(set(second)) == 1:
        half_image = 50 / held_out
        shares = [min(max(side[0], half_image), 100 - half_image) for side in (first, second)]
        half = 1.96 * sqrt(sum(x * (100 - x) for x in shares) / held_out)
        return Gain(mean, mean - half, mean + half, seeds)
    with from_extra("data"):
        from scipy.stats import ttest_ind
    interval = ttest_ind(first, second).confidence_interval()
    return Gain(mean, float(interval.low), float(interval.high), seeds)


def _by_seed(rows: Sequence[Result], model: str) -> dict[int, float]:
    found: dict[int, float] = {}
    for row in rows:
        if row.model == model:
            if row.seed in found:
                raise LedgerError(
                    f"two rows of {model} with seed {row.seed}: expected one; leave out those of "
                    "other recipes, shares and starts"
                )
            found[row.seed] = 100 * row.accuracy
    return found
