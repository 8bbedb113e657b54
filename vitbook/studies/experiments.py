"""What the page of experiments says of each."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict

from vitbook.runs import Experiment, PlannedRun, Result, accuracy_of


def standing(experiment: Experiment, rows: Iterable[Result]) -> list[dict[str, str]]:
    """A line for each model and change of an experiment: what its seeds came to.

    Accuracy is the mean, with the lowest and the highest of several seeds; "not run" without any.
    An experiment on several shares of a data set has a column for each instead of the rest, with
    "–" where it asks for no run. How its epochs are counted is then no change of the recipe.
    """
    answers = {run: row for row in rows if (run := PlannedRun.of(row)) is not None}
    usual = _told(experiment.runs[0]) if experiment.runs else {}
    shares = sorted({run.share for run in experiment.runs})
    alike = {run: _but_counts(run) for run in experiment.runs}
    counts = Counter(key for key, _ in {(alike[run], run.recipe.epoch_images) for run in alike})
    lines: dict[tuple, dict[float, list[PlannedRun]]] = {}
    for run in experiment.runs:
        changes = {k: v for k, v in _told(run).items() if v != usual[k]}
        if len(shares) > 1 and counts[alike[run]] == 1:  # one way to count, no change
            changes.pop("epoch_images", None)
        told = ", ".join(f"{key} {json.dumps(value)}" for key, value in changes.items())
        seeds = lines.setdefault((run.model, told), {share: [] for share in shares})
        seeds[run.share].append(run)
    changed = any(told for _, told in lines)
    table = []
    for (model, told), by_share in lines.items():
        line = {"model": model} | ({"changed": told} if changed else {})
        for share, seeds in by_share.items():
            made = [answers[run] for run in seeds if run in answers]
            accuracy = accuracy_of(made) if made else "not run" if seeds else "–"
            if len(shares) > 1:
                line[f"{share * 100:g} %"] = accuracy
                continue
            line |= {
                "seeds": f"{len(made)} of {len(seeds)}",
                "accuracy": accuracy,
                "data passes": f"{made[0].data_passes:.0f}" if made else "",
            }
        table.append(line)
    return table


def _told(run: PlannedRun) -> dict:
    start, teacher = run.start or "fresh weights", run.teacher or "none"
    words = {"dataset": run.dataset, "start": start, "teacher": teacher}
    return words | asdict(run.recipe)


def _but_counts(run: PlannedRun) -> tuple:
    """What tells a run from others, but for its seed and how its epochs are counted."""
    told = {key: value for key, value in _told(run).items() if key != "epoch_images"}
    return run.model, run.share, json.dumps(told, sort_keys=True)
