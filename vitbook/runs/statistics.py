"""What a few seeds and a set of test images can tell: spread, luck, Holm, log-odds, power.

All accuracies are in percent, all differences in points. scipy computes what has a distribution.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, hypot, log, sqrt
from statistics import mean, stdev, variance

from vitbook.errors import is_whole_number
from vitbook.extras import from_extra

LEVEL, POWER = 0.05, 0.8
CEILING = 97.0


@dataclass(frozen=True)
class Spread:
    """Several seeds: their mean, and the standard deviation between them."""

    mean: float | int
    deviation: float | int
    seeds: int

    def __str__(self) -> str:
        return f"{self.mean:.1f} ± {self.deviation:.1f}, {self.seeds} seeds"


@dataclass(frozen=True)
class OneRun:
    """One run: its accuracy, and how far the choice of the test images alone may have moved it.

    Attributes:
        luck: half of a 95 % interval.
    """

    mean: float | int
    luck: float

    def __str__(self) -> str:
        return f"{self.mean:.1f} %, one run, ±{self.luck:.1f} by its test images"


def summary(accuracies: Sequence[float | int], held_out: int) -> Spread | OneRun:
    """Of several seeds their spread, of one the luck of its test images.

    Args:
        accuracies: one for each seed.
        held_out: images that each was measured on.

    Raises:
        ValueError: no accuracy, or no held-out images.

    Example:
        >>> from vitbook.runs.statistics import summary
        >>> print(summary([98, 98.5, 99], 355))
        98.5 ± 0.5, 3 seeds
        >>> print(summary([67.1], 10_000))
        67.1 %, one run, ±0.9 by its test images
    """
    if not accuracies:
        raise ValueError("no accuracies: expected one for each seed")
    if len(accuracies) == 1:
        return OneRun(accuracies[0], 1.96 * test_error(accuracies[0], held_out))
    return Spread(mean(accuracies), stdev(accuracies), len(accuracies))


def test_error(accuracy: float | int, held_out: int) -> float:
    """Standard error of an accuracy over the choice of its test images, in points.

    0 and 100 % count as half an image off.
    """
    check_held_out(held_out)
    share = min(max(accuracy, 50 / held_out), 100 - 50 / held_out)
    return sqrt(share * (100 - share) / held_out)


def gap_luck(accuracies: Sequence[float | int], held_out: int) -> float:
    """Half of a 95 % interval of the gap of two accuracies over the choice of test images.

    The two sides are taken as independent, in points.
    """
    return 1.96 * hypot(*(test_error(accuracy, held_out) for accuracy in accuracies))


def check_held_out(held_out: object) -> None:
    if not is_whole_number(held_out) or held_out < 1:
        raise ValueError(f"{held_out!r} held-out images: expected at least 1, a whole number")


@dataclass(frozen=True)
class Difference:
    """A mean difference over seeds with its 95 % interval, and the chance of one so far from 0.

    Attributes:
        p: of a difference as far from 0, if there is none.
        error: standard error of the mean; ``freedom`` its degrees of freedom.
        deviation: standard deviation of the difference of one run of each side.
    """

    mean: float
    low: float
    high: float
    p: float
    error: float
    freedom: float
    deviation: float

    def __str__(self) -> str:
        return self.told()

    def told(self, digits: int = 1, unit: str = "") -> str:
        """The mean with its interval in brackets, the unit behind the mean."""
        mean, low, high = (
            f"{end:+.{digits}f}".replace("-", "−") for end in (self.mean, self.low, self.high)
        )
        return f"{mean}{unit} ({low} to {high})"


def difference(
    ours: Sequence[float | int], theirs: Sequence[float | int], finest: float | int = 0
) -> Difference:
    """The difference of two sides, each a number for each seed, by Welch's t.

    All seeds of both sides count, and none is paired with another. A seed draws the same batches
    for two models, but other weights: in this book two models of one seed are hardly more alike
    than of two (the chapter on differences measures it). So pairs would lose half of the degrees of
    freedom for nothing, and the test would change with the first seed that one side alone has.
    Where sides are alike after all, this interval is too wide, and never too narrow.

    Args:
        finest: how finely each number is known, such as the points of one test image. Seeds that
            agree to the image then still have the spread of rounding, ``finest / sqrt(12)``.

    Raises:
        ValueError: fewer than two seeds on a side; or seeds that agree to the last digit, with
            ``finest`` 0.
    """
    return contrast((1, ours), (-1, theirs), finest=finest)


def contrast(
    *sides: tuple[float | int, Sequence[float | int]], finest: float | int = 0
) -> Difference:
    """The weighted sum of the means of several sides, by t; of two with weights 1 and -1, Welch's.

    Args:
        sides: the weight of each, and a number for each of its seeds.
        finest: see :func:`difference`.

    Raises:
        ValueError: see :func:`difference`.

    Example:
        >>> from vitbook.runs.statistics import contrast
        >>> print(contrast((1, [9, 10, 11]), (-1, [6, 7, 8]), (-1, [1, 2, 3])))
        +1.0 (−1.4 to +3.4)
    """
    if min(len(seeds) for _, seeds in sides) < 2:
        raise ValueError(
            f"{' and '.join(str(len(seeds)) for _, seeds in sides)} seeds: expected two or more on "
            f"{'both sides' if len(sides) == 2 else 'every side'}; one run has no spread"
        )
    squares = [weight**2 * max(variance(seeds), finest**2 / 12) for weight, seeds in sides]
    errors = [
        (square / len(seeds), len(seeds) - 1)
        for square, (_, seeds) in zip(squares, sides, strict=True)
    ]
    found = sum(weight * mean(seeds) for weight, seeds in sides)
    return _of_t(float(found), errors, sqrt(sum(squares)))


def difference_of(first: Difference, second: Difference) -> Difference:
    """Whether one difference is larger than another: ``first - second``, of separate runs."""
    errors = [(each.error**2, each.freedom) for each in (first, second)]
    deviation = hypot(first.deviation, second.deviation)
    return _of_t(first.mean - second.mean, errors, deviation)


def verdict_of(found: Difference, claimed: int, chance: float | None = None) -> str:
    """Of a claim that a difference is above 0 (``claimed`` 1), or below (-1).

    Args:
        chance: its p value corrected for the others of its page (:func:`holm`); by default as if it
            were alone.

    Returns:
        "agrees" or "contradicts"; "a lead for" or "a lead against" if only the correction stands
        against it; else "open".
    """
    if claimed not in (1, -1):
        raise ValueError(f"claimed {claimed!r}: expected 1 for a gain, or -1 for a loss")
    if found.p >= LEVEL:
        return "open"
    as_claimed = (found.mean > 0) == (claimed > 0)
    if chance is not None and chance >= LEVEL:
        return "a lead for" if as_claimed else "a lead against"
    return "agrees" if as_claimed else "contradicts"


def _of_t(
    found: float, errors: Sequence[tuple[float, float | int]], deviation: float
) -> Difference:
    """By t, from the squared standard errors and degrees of freedom that add up (Welch 1947)."""
    with from_extra("data"):
        from scipy.stats import t
    square = sum(part for part, _ in errors)
    if not square:
        raise ValueError(
            "seeds that agree to the last digit: say how finely they are known, finest="
        )
    error, freedom = sqrt(square), square**2 / sum(part**2 / free for part, free in errors)
    half = float(t.ppf(1 - LEVEL / 2, freedom)) * error
    p = float(2 * t.sf(abs(found) / error, freedom))
    return Difference(found, found - half, found + half, p, error, freedom, deviation)


def log_odds(accuracy: float | int, held_out: int) -> float:
    """Log of right over wrong, in which a ceiling is as far away as it should be.

    98 instead of 96 % halves the errors as 80 instead of two thirds does. Half an image is added to
    both, so that 100 % is a number too.
    """
    check_held_out(held_out)
    right = accuracy / 100 * held_out
    return log((right + 0.5) / (held_out - right + 0.5))


def sign_test(more: int, fewer: int) -> float:
    """Chance of a split as lopsided as this if both sides are alike, two-sided and exact.

    Of two models: the images that the one alone names right, and those that the other alone does.

    Example:
        >>> from vitbook.runs.statistics import sign_test
        >>> sign_test(3, 0), sign_test(0, 0)
        (0.25, 1.0)
    """
    with from_extra("data"):
        from scipy.stats import binomtest
    return float(binomtest(more, more + fewer).pvalue) if more + fewer else 1.0


def holm(chances: Sequence[float | int]) -> list[float]:
    """Chances corrected for how many there are (Holm 1979), in the order given.

    Each is below a level only if the whole family of them errs less often than that.

    Example:
        >>> from vitbook.runs.statistics import holm
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    corrected, least = [0.0] * len(chances), 0.0
    for rank, place in enumerate(sorted(range(len(chances)), key=chances.__getitem__)):
        least = max(least, min(1.0, (len(chances) - rank) * chances[place]))
        corrected[place] = least
    return corrected


def images_needed(first: float | int, second: float | int) -> int:
    """Test images that tell two accuracies apart in 80 of 100 tests, at the level of 5 %.

    The two are taken as independent; of the same images fewer are enough.

    Raises:
        ValueError: equal accuracies, which no number of images tells apart.

    Example:
        >>> from vitbook.runs.statistics import images_needed
        >>> images_needed(98.0, 98.5)
        10793
    """
    if first == second:
        raise ValueError(f"{first} and {second}: expected two that differ")
    with from_extra("data"):
        from scipy.stats import norm
    reach = float(norm.ppf(1 - LEVEL / 2) + norm.ppf(POWER))
    spread = sum(each * (100 - each) for each in (first, second))
    return ceil(reach**2 * spread / (first - second) ** 2)


def seeds_needed(gap: float | int, deviation: float | int) -> int:
    """Seeds on each side that show a gap in 80 of 100 repetitions, at the level of 5 %.

    Args:
        gap: between the means.
        deviation: standard deviation of the difference of one run of each side, above 0.

    Raises:
        ValueError: no gap, or no deviation.
    """
    if not gap or deviation <= 0:
        raise ValueError(f"gap {gap}, deviation {deviation}: expected a gap, and a spread above 0")
    with from_extra("data"):
        from scipy.stats import nct, t

    def power(seeds: int) -> float:
        far, free = abs(gap) / deviation * sqrt(seeds), 2 * (seeds - 1)
        edge = t.ppf(1 - LEVEL / 2, free)
        return float(nct.sf(edge, free, far) + nct.cdf(-edge, free, far))

    high = 2
    while power(high) < POWER:
        high *= 2
    low = high // 2
    while high - low > 1:  # power rises with the seeds
        middle = (low + high) // 2
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    return high
