"""Claims with the runs behind them: what a chapter's evidence page is made of."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median

from vitbook.runs.comparison import Comparison, compare
from vitbook.runs.ledger import published
from vitbook.runs.plan import answers, get_experiment, read_experiments
from vitbook.runs.rows import LedgerError, Result
from vitbook.runs.statistics import Difference, difference_of, holm, verdict_of


@dataclass(frozen=True)
class Claim:
    """A sentence, and two kinds of run that decide it.

    Attributes:
        name: a few words, by which the chapter links it.
        sentence: what is claimed.
        sides: what the two kinds of run are called.
        ours: rows of the first kind, all seeds; ``theirs`` of the second.
        claimed: 1 if the sentence says that the first is above, -1 if below.
        than: makes it a claim of an interaction: that the difference is larger than that of this
            claim (``claimed`` 1), or smaller, in log-odds.
        in_log_odds: what is decided is the difference in log-odds, at the ceiling too.
        unequal: see :func:`.compare`.
        reported: what others print, in their words.
        note: what else a reader who doubts should know.

    Raises:
        LedgerError: a side has no rows, or what :func:`.compare` refuses; names the claim.
    """

    name: str
    sentence: str
    sides: tuple[str, str]
    ours: Sequence[Result]
    theirs: Sequence[Result]
    claimed: int = 1
    than: "Claim | None" = None
    in_log_odds: bool = False
    unequal: str = ""
    reported: str = ""
    note: str = ""
    comparison: Comparison = field(init=False)

    def __post_init__(self):
        try:
            found = compare(self.ours, self.theirs, unequal=self.unequal)
        except LedgerError as error:
            raise LedgerError(f"claim {self.name!r} ({self.sentence}): {error}") from error
        object.__setattr__(self, "comparison", found)
        if self.than and not (found.odds and self.than.comparison.odds):
            raise LedgerError(f"claim {self.name!r}: an interaction of single runs has no spread")

    @property
    def test(self) -> Difference | None:
        """What is tested, if anything is: an interaction, or a difference."""
        if self.than:
            return difference_of(self.comparison.odds, self.than.comparison.odds)
        if self.in_log_odds:
            return self.comparison.odds
        return self.comparison.points if self.comparison.decides else None

    def __str__(self) -> str:
        if not self.than:
            return str(self.comparison)
        return self.test.told(2, " log-odds")

    def verdict(self, chance: float | None = None) -> str:
        """See :func:`.verdict_of` and :meth:`.Comparison.verdict`."""
        if self.test and (self.than or self.in_log_odds):
            return verdict_of(self.test, self.claimed, chance)
        return self.comparison.verdict(self.claimed, chance)

    @property
    def planned(self) -> dict[str, str]:
        """Experiment -> the day on which the list first asked for its runs."""
        asked = {row.experiment for row in (*self.ours, *self.theirs)}
        return {each.name: str(each.planned) for each in read_experiments() if each.name in asked}


@dataclass(frozen=True)
class Table:
    """What is counted or quoted, and no comparison of runs.

    Raises:
        LedgerError: no lines: what they are made of is not here.
    """

    title: str
    note: str
    lines: Sequence[dict[str, str]]

    def __post_init__(self):
        if not self.lines:
            raise LedgerError(f"table {self.title!r} has no lines: leave it out, or mend its rows")


@dataclass(frozen=True)
class Evidence:
    """All that stands behind a chapter.

    Attributes:
        claims: the chapter's own first.
        tables: quotations, audits, speeds.
        not_run: what the list of experiments asks for and the ledger lacks: see :func:`not_run`.

    Raises:
        LedgerError: two claims of one name.
    """

    claims: Sequence[Claim]
    tables: Sequence[Table] = ()
    not_run: Sequence[dict[str, str]] = ()

    def __post_init__(self):
        if len({claim.name for claim in self.claims}) != len(self.claims):
            raise LedgerError(f"claims {[claim.name for claim in self.claims]}: two of one name")

    def __getitem__(self, name: str) -> Claim:
        known = {claim.name: claim for claim in self.claims}
        if name not in known:
            raise LedgerError(f"no claim {name!r}: expected one of {', '.join(sorted(known))}")
        return known[name]

    @cached_property
    def chances(self) -> dict[str, float]:
        """Claim -> its p value, corrected for all claims that could be decided (Holm)."""
        tested = [claim for claim in self.claims if claim.test]
        corrected = holm([claim.test.p for claim in tested])
        return {claim.name: p for claim, p in zip(tested, corrected, strict=True)}

    def verdict(self, name: str) -> str:
        return self[name].verdict(self.chances.get(name))


def select(rows: Iterable[Result], **fields: object) -> list[Result]:
    """Rows whose fields are these: ``select(rows, experiment="data_size", share=0.1)``."""
    return [row for row in rows if all(getattr(row, key) == value for key, value in fields.items())]


def printed(
    model: str, dataset: str | None = None, quantity: str = "accuracy"
) -> float | int | None:
    """What others print of a model: an accuracy (a share), or "images per second".

    From scratch, where they print a fine-tuned model too. None where they print nothing.

    Raises:
        LedgerError: several numbers are printed.
    """
    found = [
        row for row in published(quantity=quantity, model=model) if row.get("dataset") == dataset
    ]
    found = [row for row in found if "fine-tuned" not in row["source"]] or found
    if len(found) > 1:
        raise LedgerError(f"{len(found)} values of {quantity} of {model} on {dataset}: expected 1")
    return found[0]["value"] if found else None


def reported(model: str, baseline: str, dataset: str) -> str:
    """What others print of two models on a data set, and how far apart that is.

    Raises:
        LedgerError: not one number is printed, or several are.
    """
    shares = {name: printed(name, dataset) for name in (model, baseline)}
    if lacking := [name for name, share in shares.items() if share is None]:
        raise LedgerError(f"no accuracy of {lacking[0]} on {dataset} is printed: expected one")
    ours, theirs = (100 * share for share in shares.values())
    gap = f"{ours - theirs:+.2f}".replace("-", "−")
    return f"{ours:.2f} % against {theirs:.2f} % ({gap})"


def not_run(
    names: Iterable[str], rows: Iterable[Result] | None = None, models: Iterable[str] = ()
) -> list[dict]:
    """A line for each model of some experiments that the ledger lacks, with its price.

    The hours are by the images a second of the experiment's other runs, on the machine that made
    them; "not known" where it has none.

    Args:
        names: of the experiments.
        rows: by default those of the ledger.
        models: only these; by default all of the experiments.

    Raises:
        UnknownNameError: no such experiment.
    """
    made, wanted, lines = answers(rows), set(models), []
    for experiment in map(get_experiment, names):
        rates = [made[run].images_per_second for run in experiment.runs if run in made]
        for model in dict.fromkeys(run.model for run in experiment.runs):
            left = [run for run in experiment.runs if run.model == model and run not in made]
            hours = sum(run.images for run in left) / median(rates) / 3600 if rates else None
            if left and (not wanted or model in wanted):
                lines.append({
                    "experiment": experiment.name, "model": model,
                    "seeds": ", ".join(sorted({str(run.seed) for run in left})),
                    "hours": "not known" if hours is None else f"{hours:.1f}",
                })  # fmt: skip
    return lines
