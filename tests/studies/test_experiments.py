"""What the page of experiments finds, and the table of all runs."""

from collections import Counter
from itertools import chain

from vitbook.runs import PlannedRun, read_all, read_experiments
from vitbook.studies.experiments import evidence, table


def test_each_finding_stands_on_three_seeds_and_equal_steps():
    found = evidence()
    for claim in found.claims:
        assert len(claim.ours) == len(claim.theirs) == 3 and not claim.comparison.unequal
    assert found.verdict("Post-LN without warm-up") == "agrees"
    assert found.verdict("Pre-LN without warm-up") == "open"
    assert found.verdict("A start from CIFAR-10") == "agrees"


def test_the_table_has_every_run_once():
    lines, rows = table(), read_all()
    made = [line for line in lines if line["accuracy"] is not None]
    assert [line["accuracy"] for line in made] == [row.accuracy for row in rows]
    planned = {run for experiment in read_experiments() for run in experiment.runs}
    left = planned - {PlannedRun.of(row) for row in rows}
    assert len(lines) - len(made) == len(left) > 0
    assert len({tuple(line) for line in lines}) == 1  # the same columns


def test_a_run_names_all_experiments_that_ask_for_it():
    names = [line["experiment"].split(", ") for line in table()]
    named = Counter(chain.from_iterable(names))
    assert max(map(len, names)) > 1
    for experiment in read_experiments():
        assert named[experiment.name] >= len(set(experiment.runs)), experiment.name
