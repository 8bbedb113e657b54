"""What one kind of run gains on another, and how far luck could carry it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from vitbook import datasets
from vitbook.runs.planned_run import PlannedRun, num_images
from vitbook.runs.rows import LedgerError, Result
from vitbook.runs.statistics import (
    CEILING,
    Difference,
    OneRun,
    Spread,
    difference,
    gap_luck,
    images_needed,
    log_odds,
    seeds_needed,
    summary,
    verdict_of,
)


@dataclass(frozen=True)
class Comparison:
    """One kind of run against another, by all seeds that there are.

    Attributes:
        ours: accuracies of several seeds, or one run.
        gap: the first less the second, in points.
        low: end of a 95 % interval: over seeds, or if one side has a single run that of the choice
            of its test images, the two sides taken as independent; so is the next.
        points: the same over seeds, with its chance; None with a single run.
        odds: in log-odds, over seeds.
        steps: of the optimizer, on either side; so are the next two.
        passes: over the data.
        held_out: images that all were tested on.
        unequal: why runs of unequal steps may stand side by side; empty if steps are equal.
    """

    ours: Spread | OneRun
    theirs: Spread | OneRun
    gap: float
    low: float
    high: float
    points: Difference | None
    odds: Difference | None
    steps: tuple[int, int]
    passes: tuple[float, float]
    held_out: int
    unequal: str = ""

    def __str__(self) -> str:
        if self.points is None:
            told = (
                f"{self.gap:+.1f} points, one run, ±{self.high - self.gap:.1f} by its test images"
            )
        else:
            seeds = (self.ours.seeds, self.theirs.seeds)
            told = f"{self.gap:+.1f} points ({self.low:+.1f} to {self.high:+.1f}), " + (
                f"{seeds[0]} seeds each"
                if seeds[0] == seeds[1]
                else f"{seeds[0]} and {seeds[1]} seeds"
            )
        return told.replace("-", "−")

    @property
    def at_ceiling(self) -> bool:
        """The second side, the baseline, is above 97 %: points then decide nothing, up or down.

        The first side has no say, so that its outcome does not choose whether it is judged.
        """
        return self.theirs.mean > CEILING

    @property
    def decides(self) -> bool:
        """Whether it counts among the comparisons of a page that are corrected together."""
        return self.points is not None and not self.at_ceiling

    def verdict(self, claimed: int, chance: float | None = None) -> str:
        """Of a claim that the first side is above the second (``claimed`` 1), or below (-1).

        Returns:
            "shows" of one run; "at the ceiling"; else what :func:`.verdict_of` says.
        """
        if self.points is None:
            return "shows"
        if self.at_ceiling:
            return "at the ceiling"
        return verdict_of(self.points, claimed, chance)

    @property
    def needs(self) -> str:
        """How many seeds, or test images of one run each, would show a gap as large as this one."""
        if not self.gap:
            return ""
        if self.points is not None:
            return f"{seeds_needed(self.gap, self.points.deviation):,} seeds on each side"
        return f"{images_needed(self.ours.mean, self.theirs.mean):,} test images"


def compare(ours: Sequence[Result], theirs: Sequence[Result], *, unequal: str = "") -> Comparison:
    """All seeds of one kind of run against all of another.

    Args:
        ours: runs that differ in their seed alone.
        theirs: runs of another model, recipe or share of the same data.
        unequal: why it is fair that the two took unequal numbers of steps, in words for a reader.

    Raises:
        LedgerError: a side without rows, of two kinds or with a seed twice; sides that were tested
            on different data, or took unequal steps without a word.

    Example:
        >>> from vitbook import runs
        >>> few = [row for row in runs.read_all() if row.experiment == "few_digits"]
        >>> few = [row for row in few if row.share == 0.1]
        >>> plain, spt = ([row for row in few if row.model == f"{kind}_micro_patch2_8"]
        ...               for kind in ("vit", "spt_vit"))
        >>> found = runs.compare(spt, plain)
        >>> found.steps, found.verdict(1)
        ((440, 440), 'agrees')
    """
    first, second = _kind(ours), _kind(theirs)
    if first.dataset != second.dataset:
        raise LedgerError(
            f"rows of {first.dataset} and of {second.dataset} compared: expected one data set, "
            "as others have other test images"
        )
    if first.steps != second.steps and not unequal:
        raise LedgerError(
            f"rows of unequal steps compared: {first.model} took {first.steps:,}, {second.model} "
            f'{second.steps:,}; take rows of equal steps, or say why it is fair: unequal="..."'
        )
    held_out = num_images(first.dataset, datasets.held_out_split(first.dataset))
    sides = [[100 * row.accuracy for row in rows] for rows in (ours, theirs)]
    told = [summary(side, held_out) for side in sides]
    gap = told[0].mean - told[1].mean
    points = odds = None
    if min(map(len, sides)) > 1:
        points = difference(*sides, finest=100 / held_out)
        odds = difference(
            *([log_odds(x, held_out) for x in side] for side in sides),
            finest=1e-6,  # what agrees to the image has a spread, if none to speak of
        )
    luck = gap_luck([side.mean for side in told], held_out)
    ends = (points.low, points.high) if points else (gap - luck, gap + luck)
    steps, passes = (first.steps, second.steps), (ours[0].data_passes, theirs[0].data_passes)
    reason = unequal if first.steps != second.steps else ""
    return Comparison(*told, gap, *ends, points, odds, steps, passes, held_out, reason)


def _kind(rows: Sequence[Result]) -> PlannedRun:
    """What all runs of a side have in common.

    Raises:
        LedgerError: if that is not all but the seed.
    """
    if not rows:
        raise LedgerError("no rows on one side of a comparison: expected a run or more")
    runs = [PlannedRun.of(row) for row in rows]
    if None in runs:
        raise LedgerError(f"{rows[runs.index(None)].name}: its recipe is none of today's")
    kinds = {replace(run, seed=0, probe_epochs=(), experiment="") for run in runs}
    if len(kinds) > 1:
        models = ", ".join(sorted({run.model for run in kinds}))
        raise LedgerError(
            f"{len(kinds)} kinds of run on one side, of {models}: expected one model, recipe, "
            "share, start and teacher"
        )
    if twice := [seed for seed, times in Counter(row.seed for row in rows).items() if times > 1]:
        raise LedgerError(
            f"two rows of {rows[0].model} with seed {twice[0]}: expected one; leave out those of "
            "other experiments"
        )
    return next(iter(kinds))
