"""Experiments as data: which runs decide which question, read from ``data/experiments.toml``."""

import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any, TypedDict

from vitbook import datasets
from vitbook.errors import UnknownNameError
from vitbook.files import data_folder
from vitbook.runs.ledger import read_all
from vitbook.runs.planned_run import PlannedRun, check_name
from vitbook.runs.recipes import get_recipe
from vitbook.runs.rows import Result
from vitbook.typed import typed


class _Runs(TypedDict, total=False):
    """Settings of runs, shared by all of an experiment or for some of them."""

    role: str
    models: list[str]
    dataset: str
    recipe: str
    changes: dict[str, str | int | float | bool]
    images: int
    epochs: int
    seeds: list[int]
    shares: list[int | float]
    share_seed: int
    start: str
    teacher: str
    probes: list[int]
    ships: bool


class _Group(_Runs, total=False):
    question: str
    planned: date
    needs: str
    runs: list[dict[str, Any]]


RUN_KEYS, GROUP_KEYS = set(_Runs.__annotations__), set(_Group.__annotations__)


class ExperimentError(ValueError):
    """A list of experiments that cannot be run as it stands."""


@dataclass(frozen=True)
class Experiment:
    """A question, and the runs that decide it.

    Attributes:
        runs: in the order in which they are made.
        roles: what the chapter calls some of the runs -> these, one for each seed.
        needs: what has to be built before it can be run; empty if nothing.
        planned: the day on which the list first asked the question.
    """

    name: str
    question: str
    runs: tuple[PlannedRun, ...]
    needs: str = ""
    planned: date | None = None
    roles: Mapping[str, tuple[PlannedRun, ...]] = field(default_factory=dict)

    def rows(self, made: Iterable[Result] | None = None) -> dict[str, list[Result]]:
        """Role -> the rows of those of its runs that were made, see :func:`answers`."""
        found = answers(made)
        return {
            role: [found[run] for run in some if run in found] for role, some in self.roles.items()
        }


def answers(rows: Iterable[Result] | None = None) -> dict[PlannedRun, Result]:
    """Run -> the row that answers it, under whichever experiment's name.

    A run that was looked into while it learned also answers for the same without probes. Of two
    rows of one run the last one counts.

    Args:
        rows: by default all of the ledger.
    """
    rows = read_all() if rows is None else rows
    own = {run: row for row in rows if (run := PlannedRun.of(row)) is not None}
    return {run.unprobed: row for run, row in own.items()} | own


def get_experiment(name: str) -> Experiment:
    """One of the book's own.

    Raises:
        UnknownNameError: no such experiment.
        ExperimentError: see :func:`read_experiments`.
    """
    known = {each.name: each for each in read_experiments()}
    if name not in known:
        raise UnknownNameError("experiment", name, known)
    return known[name]


def read_experiments(
    path: str | Path | None = None, check: Callable[[PlannedRun], None] | None = None
) -> tuple[Experiment, ...]:
    """The experiments in their order, which is that of the work.

    Each experiment is one TOML table with a ``question``, and the day on which it was ``planned``.
    The table holds the settings that all its runs share. Each ``[[NAME.runs]]`` adds one run for
    each of its models, shares and seeds, and may change the shared settings. The settings are:

    ``models``, ``dataset``, ``recipe`` with ``changes``, ``images`` shown in a run and ``epochs``
    that they are divided into (else the recipe's own epochs), ``seeds``, ``shares`` with
    ``share_seed``, ``start`` (weights), ``teacher`` (a model), ``probes`` (epochs), ``ships``; and
    ``role``, what a chapter calls the seeds of one model, in one ``[[NAME.runs]]`` or in several.

    Args:
        path: by default the book's own list.
        check: refuses a run by a ``ValueError`` or a ``LookupError``, for example
            :func:`vitbook.training.check_run`, which knows models and weights by name.

    Raises:
        ExperimentError: no such list; or names the experiment and what is wrong with it.
    """
    path = Path(path) if path is not None else data_folder() / "experiments.toml"
    if not path.is_file():
        raise ExperimentError(f"no list of experiments {path}: mend the path")
    found = _parsed(path, path.read_bytes())
    for experiment in found if check else ():
        try:
            for run in experiment.runs:
                check(run)
        except (ValueError, LookupError, TypeError) as error:
            raise ExperimentError(f"experiment {experiment.name} in {path}: {error}") from error
    return found


@lru_cache(maxsize=8)  # a chapter asks for the list many times
def _parsed(path: Path, text: bytes) -> tuple[Experiment, ...]:
    try:
        groups = tomllib.loads(text.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ExperimentError(f"{path} is no TOML ({error}): mend that place") from error
    found = []
    for name, group in groups.items():
        try:
            found.append(_experiment(name, group))
        except (ValueError, LookupError, TypeError) as error:
            raise ExperimentError(f"experiment {name} in {path}: {error}") from error
    return _each_run_once(found)


def _experiment(name: str, group: dict) -> Experiment:
    if not isinstance(group, dict):
        raise TypeError(f"{repr(group)[:60]}: expected a table, [{name}]")
    check_name(name)
    _check_keys(group, RUN_KEYS | GROUP_KEYS)
    group = typed(group, _Group)
    if not group.get("question"):
        raise ValueError("no question: say what its runs decide")
    shared = {key: value for key, value in group.items() if key in RUN_KEYS}
    entries = [(entry, _runs(name, shared, entry)) for entry in group.get("runs", ())]
    runs = [run for _, some in entries for run in some]
    if bool(runs) == bool(group.get("needs")):
        raise ValueError(f"expected runs, [[{name}.runs]], or a word on what it needs first")
    twice = [run.model for run, times in Counter(runs).items() if times > 1]
    if twice:
        raise ValueError(f"the same run of {twice[0]} stands there twice: remove one")
    called: dict[str, list[PlannedRun]] = {}
    for entry, some in entries:
        if "role" in entry:
            called.setdefault(entry["role"], []).extend(some)
    for role, some in called.items():
        if len({replace(run, seed=0) for run in some}) > 1:
            raise ValueError(f"role {role!r}: expected one model, and its seeds alone")
    return Experiment(
        name,
        group["question"],
        tuple(runs),
        group.get("needs", ""),
        group.get("planned"),
        {role: tuple(some) for role, some in called.items()},
    )


def _runs(name: str, shared: dict, entry: dict) -> list[PlannedRun]:
    _check_keys(entry, RUN_KEYS)
    entry = typed(entry, _Runs)
    changes = shared.get("changes", {}) | entry.get("changes", {})
    asked = {"seeds": [0], "shares": [1.0], "models": [], "probes": []} | shared | entry
    if not asked["models"]:
        raise ValueError("runs without models: name them")
    if missing := {"dataset", "recipe"} - asked.keys():
        raise ValueError(f"runs of {asked['models'][0]} without {' and '.join(sorted(missing))}")
    if (dataset := asked["dataset"]) not in datasets.list_datasets():
        raise UnknownNameError("data set", dataset, datasets.list_datasets())
    datasets.held_out_split(dataset)
    budget = _budget(asked)
    if twice := changes.keys() & budget.keys():
        raise ValueError(f"{min(twice)} in changes, and images and epochs: give one of the two")
    recipe = get_recipe(asked["recipe"], **changes | budget)
    runs = [
        PlannedRun(
            model,
            asked["dataset"],
            recipe,
            seed,
            share,
            asked.get("share_seed", 0),
            tuple(asked["probes"]),
            asked.get("start", ""),
            asked.get("teacher", ""),
            experiment=name,
            ships=asked.get("ships", False),
        )
        for seed in asked["seeds"]
        for share in asked["shares"]
        for model in asked["models"]
    ]
    if small := [run for run in runs if not run.images]:
        raise ValueError(
            f"an epoch of {small[0].model} has fewer images than a batch of {recipe.batch_size}: "
            "take a smaller batch_size, more images or fewer epochs"
        )
    return runs


def _budget(asked: dict) -> dict[str, int]:
    """Images shown, divided into epochs; both or neither."""
    if not asked.keys() & {"images", "epochs"}:
        return {}
    images, epochs = asked.get("images"), asked.get("epochs")
    if images is None or epochs is None or not 2**53 > images >= epochs > 0:
        raise ValueError(
            f"images {images}, epochs {epochs}: expected both, whole numbers above 0, or neither"
        )
    if images % epochs:
        raise ValueError(f"images {images:,} do not divide into {epochs} epochs: change one")
    return {"epochs": epochs, "epoch_images": images // epochs}


def _each_run_once(experiments: list[Experiment]) -> tuple[Experiment, ...]:
    """A run that several experiments ask for is that of the first, and ships if any says so."""
    ships = {run for experiment in experiments for run in experiment.runs if run.ships}
    first: dict[PlannedRun, PlannedRun] = {}

    def once(runs: tuple[PlannedRun, ...]) -> tuple[PlannedRun, ...]:
        for run in runs:
            if run not in first:
                first[run] = run if run.ships == (run in ships) else replace(run, ships=True)
        return tuple(first[run] for run in runs)

    return tuple(
        replace(
            experiment,
            runs=once(experiment.runs),
            roles={role: once(some) for role, some in experiment.roles.items()},
        )
        for experiment in experiments
    )


def _check_keys(table: dict, known: set[str]) -> None:
    if not isinstance(table, dict):
        raise TypeError(f"{repr(table)[:60]}: expected a table")
    for key in table.keys() - known:
        raise UnknownNameError("field", key, known)
