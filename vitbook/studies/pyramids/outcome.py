"""What the six models of the experiment reach, by all rows that the ledger has, in words.

Nothing here knows the outcome: one run is told as one run, and what is not there as not run.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from vitbook import datasets, runs
from vitbook.runs import Claim, Comparison, Evidence, Result
from vitbook.runs.planned_run import num_images
from vitbook.runs.statistics import OneRun
from vitbook.studies.pyramids.costs import small_models

EXPERIMENT, PLAIN = "pyramids", "plain"
NOT_RUN = "not run"
# Role in the list of experiments -> what the chapter calls it.
ROLES = {
    PLAIN: "plain",
    "plain, as deep": "the plain model as deep",
    "pyramid, linear": "the pyramid by a linear layer",
    "pyramid, convolution": "the pyramid by a convolution",
    "pyramid, mean": "the pyramid by a mean",
    "Swin": "Swin",
}
WAYS = {"pyramid, linear": "the linear layer", "pyramid, convolution": "the convolution",
        "pyramid, mean": "the mean"}  # fmt: skip
# What a verdict on "above plain" says, in the order in which it is told.
VERDICTS = {
    "agrees": "above plain", "a lead for": "above plain, but only a lead among five comparisons",
    "open": "not told apart from plain", "a lead against": "below plain, but only a lead",
    "contradicts": "below plain",
}  # fmt: skip


@dataclass(frozen=True)
class Learned:
    """Rows of the experiment by role, and what they say.

    Attributes:
        rows: role -> its rows, none where nobody has made a run yet.
        models: role -> its name in the catalogue.
    """

    rows: Mapping[str, Sequence[Result]]
    models: Mapping[str, str]

    @property
    def seeds(self) -> str:
        """How many runs of each model there are."""
        counts = sorted({len(rows) for rows in self.rows.values()})
        if counts == [0]:
            return NOT_RUN
        told = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        return f"{told} seed{'s' * (counts[-1] > 1)} of each"

    @property
    def table(self) -> list[dict[str, str]]:
        """Of each model, its size, what it reaches, and how much more than plain."""
        counted = small_models(self.models.values())
        return [
            {
                "model": told.removeprefix("the "),
                "parameters, millions": f"{counted[self.models[role]][0] / 1e6:.2f}",
                "accuracy, %": self.top1(role),
                "points above plain": "" if role == PLAIN else self.against_plain(role),
            }
            for role, told in ROLES.items()
        ]

    def top1(self, role: str) -> str:
        """Held-out accuracy in percent: the mean of all seeds with their spread, or one run."""
        if not (rows := self.rows[role]):
            return NOT_RUN
        held_out = num_images(rows[0].dataset, datasets.held_out_split(rows[0].dataset))
        found = runs.summary([100 * row.accuracy for row in rows], held_out)
        return f"{found.mean:.1f}, one run" if isinstance(found, OneRun) else str(found)

    def against_plain(self, role: str) -> str:
        """Points more than plain, 95 %: in brackets over seeds, or of one run by test images."""
        return self.points(role, PLAIN)

    def points(self, ours: str, theirs: str) -> str:
        found = self._compared(ours, theirs)
        if found is None:
            return NOT_RUN
        if found.points is None:
            return f"{found.gap:+.1f}, ±{found.high - found.gap:.1f}".replace("-", "−")
        return found.points.told()

    def _compared(self, ours: str, theirs: str) -> Comparison | None:
        sides = self.rows[ours], self.rows[theirs]
        return runs.compare(*sides) if all(sides) else None

    @cached_property
    def claims(self) -> list[Claim]:
        """Of each model beside plain, that it is above: the five that were set before the runs."""
        return [
            Claim(
                _capital(told.removeprefix("the ")),
                f"In equal steps and at equal multiply-adds, {told} is above plain.",
                (told, "plain"), self.rows[role], self.rows[PLAIN],
            )
            for role, told in ROLES.items()
            if role != PLAIN and self.rows[role] and self.rows[PLAIN]
        ]  # fmt: skip

    @property
    def finding(self) -> str:
        """Which models stand above plain, and which below, by the rule set before the runs."""
        if not self.claims:
            return "No two models of this comparison have been run yet."
        found, groups, order = Evidence(self.claims), {}, list(VERDICTS.values())
        for claim in self.claims:
            words = _standing(claim, found.verdict(claim.name))
            groups.setdefault(words, []).append(claim.sides[0])
        told = sorted(groups, key=lambda words: order.index(words) if words in order else 9)
        return " ".join(f"{_capital(words)}: {'; '.join(groups[words])}." for words in told)

    @property
    def of_ways(self) -> str:
        """The three ways of shrinking, beside each other; ranked where an interval leaves 0."""
        told = []
        for first, second in combinations(WAYS, 2):
            found = self._compared(first, second)
            if found is None:
                continue
            ahead, behind = (first, second) if found.gap >= 0 else (second, first)
            apart = not found.low <= 0 <= found.high
            if found.points:
                verb = "is above" if apart else "is not told apart from"
            else:
                verb = "lies in one run " + ("above" if apart else "near")
            points = self.points(ahead, behind)
            told.append(f"{WAYS[ahead]} {verb} {WAYS[behind]}, {points}")
        if not told:
            return "The ways of shrinking have not been run."
        return f"Of the ways to shrink (not corrected), {'; '.join(told)}."


def learned(rows: Callable[[str], Sequence[Result]] | None = None) -> Learned:
    """By the ledger as it is now, with rows that another experiment asked for too.

    Args:
        rows: role -> its rows, of other runs than the ledger's.
    """
    asked = runs.get_experiment(EXPERIMENT)
    found = asked.rows() if rows is None else {role: rows(role) for role in asked.roles}
    return Learned(found, {role: some[0].model for role, some in asked.roles.items()})


def with_class_token() -> str:
    """What plain reaches if it reads a class token, by rows of an experiment of their own."""
    return Learned(runs.get_experiment("last_weights").rows(), {}).top1("plain")


def _capital(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}"


def _standing(claim: Claim, verdict: str) -> str:
    if verdict != "shows":
        return VERDICTS.get(verdict, verdict)
    gap = claim.comparison
    if gap.low <= 0 <= gap.high:
        return "in one run each, as near to plain as other test images could bring it"
    return f"in one run each, {'above' if gap.gap > 0 else 'below'} plain"
