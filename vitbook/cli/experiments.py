"""``vitbook experiments``: what is to be run and why, and the running of it."""

import math
import os
import shlex
import shutil
import signal
import time
from pathlib import Path
from typing import Annotated

import typer

from vitbook import datasets, runs
from vitbook.cli import collecting, packing
from vitbook.cli.options import Device, Threads
from vitbook.cli.rates import Rates
from vitbook.cli.worker import ROOT, Worker, code_of_commit, say
from vitbook.cli.workplace import DIRTY, WorkError, Workplace
from vitbook.devices import choose_device, set_threads
from vitbook.errors import UnknownNameError
from vitbook.runs import Experiment, PlannedRun, read_experiments
from vitbook.runs.tables import print_table
from vitbook.training import check_run
from vitbook.training.faults import check_fault

ROOM = 200e6  # bytes that an unfinished state may need

app = typer.Typer(
    help="Experiments as data: what the ledger lacks, and the making of it.", no_args_is_help=True
)

Names = Annotated[
    list[str] | None, typer.Argument(help="Experiments or runs by name; by default all.")
]
ListFile = Annotated[
    Path | None, typer.Option("--file", help="The list; by default data/experiments.toml.")
]
Ledger = Annotated[
    Path | None, typer.Option(help="Folder with results and checkpoints; by default data/.")
]
Work = Annotated[
    Path | None, typer.Option(help="Folder of unfinished runs; by default runs/experiments.")
]


@app.command(name="list")
def list_experiments(
    names: Names = None,
    file: ListFile = None,
    ledger: Ledger = None,
    work: Work = None,
    threads: Threads = None,
    device: Device = None,
) -> None:
    """Say of each experiment what it decides, what is done, and how long the rest takes here.

    With names: run by run.
    """
    set_threads(threads)
    experiments, place = read_experiments(file, _check), _place(ledger, work)
    wanted = _wanted(experiments, names)
    rows = place.done()
    states = {run: place.state(run, rows) for run in wanted}
    left = {run: (1 - place.progress(run)[0]) * run.images for run in wanted}
    rate = Rates(rows, runs.device_name(choose_device(device)))
    if names:
        print_table([_run_line(run, states[run], rows.get(run)) for run in wanted])
        return
    lines = []
    for experiment in experiments:
        mine = [states[run] for run in experiment.runs]
        rest = [run for run in experiment.runs if states[run] != "done"]
        lines.append(
            {"experiment": experiment.name, "runs": str(len(mine))}
            | {word: str(mine.count(word)) for word in ("done", "running", "begun", "missing")}
            | {
                "images left": f"{sum(left[run] for run in rest):,.0f}",
                "hours left": rate.hours(rest, left),
                "decides": experiment.question,
            }
        )
    print_table(lines)
    typer.echo(f"\nhours are for {rate.device}, by the rates of the ledger")
    _say_what_waits(experiments, wanted, states)
    asked = {run for experiment in experiments for run in experiment.runs}
    for row in runs.read_all(place.ledger / "results"):
        if row.experiment and PlannedRun.of(row) not in asked:
            typer.echo(f"{row.name}: no experiment asks for it any more; it is kept")


@app.command(name="run")
def run_experiments(
    names: Names = None,
    minutes: Annotated[float | None, typer.Option(help="Stop after so many.")] = None,
    threads: Threads = None,
    device: Device = None,
    dirty: Annotated[
        bool, typer.Option("--dirty", help="Use the files as they are; the rows say so.")
    ] = False,
    file: ListFile = None,
    ledger: Ledger = None,
    work: Work = None,
) -> None:
    """Make what the ledger lacks, in the order of the list; goes on with what was cut off.

    Several of these, on one machine or on several that share the folder, never take the same run.
    The code is that of the checkout's commit, in a clone of its own.
    """
    if minutes is not None and not 0 < minutes < math.inf:
        raise ValueError(f"--minutes {minutes:g}: expected more than 0, or leave it out")
    choose_device(device)
    set_threads(threads)
    experiments, place = read_experiments(file, _check), _place(ledger, work, dirty)
    wanted = _wanted(experiments, names)
    for folder in (place.ledger / "results", place.ledger / "checkpoints", place.folder):
        folder.mkdir(parents=True, exist_ok=True)
    out = place.folder / DIRTY if dirty else code_of_commit(place.folder)
    asked = {"--threads": threads, "--device": device}
    options = [str(word) for pair in asked.items() if pair[1] is not None for word in pair]
    if hasattr(os, "nice"):
        os.nice(19)
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    ends = math.inf if minutes is None else time.monotonic() + minutes * 60
    worker = Worker(place, out, tuple(options), ends)
    outcomes, rows = [], place.done()
    for run in [run for run in wanted if not place.is_done(run, rows)]:
        if shutil.disk_usage(place.folder).free < ROOM:
            raise WorkError(
                f"under {ROOM / 1e6:.0f} MB are free in {place.folder}: free some space"
            )
        if time.monotonic() < ends and _has_data(run):
            outcomes.append(worker.make(run))
    rows = place.done()
    states = {run: place.state(run, rows) for run in wanted}
    missing = sum(found != "done" for found in states.values())
    made, failed = outcomes.count("made"), outcomes.count("failed")
    say(f"{made} made, {failed} failed, {missing} of {len(wanted)} still missing")
    _say_what_waits(experiments, wanted, states)
    if failed:
        raise WorkError(f"{failed} failed, see above; the same command tries again")


@app.command(name="pack")
def pack_experiments(
    folder: Annotated[Path, typer.Argument(help="To be written; it must not be there.")],
    names: Annotated[list[str], typer.Argument(help="Experiments by name, the worthiest first.")],
    megabytes: Annotated[float, typer.Option(min=1, help="What it may weigh, in MiB.")] = 64.0,
    file: ListFile = None,
    ledger: Ledger = None,
    work: Work = None,
) -> None:
    """Write a folder for a machine that is lent: code, data, and the runs that the ledger lacks.

    There `experiments run` works off the list, without a connection and without git:
    torch, torchvision and the small packages of pyproject.toml must be there.
    """
    list_file = file or runs.data_folder() / "experiments.toml"
    by_name = {each.name: each for each in read_experiments(file, _check)}
    for name in names:
        if name not in by_name:
            raise UnknownNameError("experiment", name, by_name)
    chosen = [by_name[name] for name in dict.fromkeys(names)]
    packed = packing.pack(folder, list_file, chosen, _place(ledger, work), megabytes)
    for why, number in packed.left_out.items():
        say(f"{number} run{'s' * (number > 1)} left out: {why}")
    images = sum(run.images for run in packed.runs)
    say(
        f"{len(packed.runs)} runs, {images / 1e6:.1f} million images, {packed.megabytes:.1f} MiB "
        f"in {folder}. There: cd {shlex.quote(folder.name)} && python3 -m vitbook experiments run "
        "--minutes 9. Here, once it is back: vitbook experiments collect "
        f"{shlex.quote(str(folder))}"
    )


@app.command(name="collect")
def collect_experiments(
    folder: Annotated[Path, typer.Argument(help="That `pack` wrote, as it came back.")],
    file: ListFile = None,
    ledger: Ledger = None,
    work: Work = None,
) -> None:
    """Carry the rows that were made in a pack into the ledger, each after a check."""
    experiments, place = read_experiments(file, _check), _place(ledger, work)
    came, stayed = collecting.collect(folder, experiments, place)
    for name, why in stayed.items():
        say(f"{name} stays there: {why}")
    say(f"{len(came)} rows came in")
    if stayed:
        raise WorkError(f"{len(stayed)} did not come in, see above")


def _check(run: PlannedRun) -> None:
    check_run(run)
    check_fault(run.recipe)


def _place(ledger: Path | None, work: Path | None, dirty: bool = False) -> Workplace:
    work = work or ROOT / "runs" / "experiments"
    return Workplace(work, ledger or runs.data_folder(), dirty)


def _wanted(experiments: tuple[Experiment, ...], names: list[str] | None) -> list[PlannedRun]:
    """Each run once: the experiments named, or single runs."""
    by_name = {experiment.name: experiment.runs for experiment in experiments}
    by_name |= {run.name: (run,) for experiment in experiments for run in experiment.runs}
    for name in names or []:
        if name not in by_name:
            raise UnknownNameError("experiment or run", name, by_name)
    chosen = names or [experiment.name for experiment in experiments]
    return list(dict.fromkeys(run for name in chosen for run in by_name[name]))


def _has_data(run: PlannedRun) -> bool:
    try:
        return datasets.is_here(run.dataset)
    except datasets.DatasetError:
        return True  # the run will say what is wrong with it


def _say_what_waits(experiments, wanted: list[PlannedRun], states: dict[PlannedRun, str]) -> None:
    waiting = [run for run in wanted if states[run] != "done" and not _has_data(run)]
    for name in dict.fromkeys(run.dataset for run in waiting):
        number = sum(run.dataset == name for run in waiting)
        typer.echo(
            f"{number} run{'s' * (number > 1)} wait{'s' * (number == 1)} for {name}, which is not "
            f"here: `vitbook data fetch {name}`, or set VITBOOK_DATA"
        )
    for experiment in experiments:
        if experiment.needs:
            typer.echo(f"{experiment.name} needs {experiment.needs}")


def _run_line(run: PlannedRun, state: str, row: runs.Result | None) -> dict[str, str]:
    return {
        "run": run.name,
        "data": f"{run.dataset}" + (f", {run.share * 100:g} %" if run.share != 1 else ""),
        "images": f"{run.images:,}",
        "state": state,
        "accuracy": "" if row is None else f"{row.accuracy:.2%}",
        "seconds": "" if row is None else f"{row.wall_time_s:.0f}",
        "images/s": "" if row is None else f"{row.images_per_second:.0f}",
        "commit": "" if row is None else row.commit[:8] + "+" * row.commit.endswith("+"),
    }
