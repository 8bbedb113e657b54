"""Runs for a machine that is lent for half an hour: packed here, made there.

The pack is this checkout cut to what the runs need. There ``vitbook experiments run`` works as it
does here, with no connection and no git; `collecting` carries its rows back.
"""

import re
import shutil
import subprocess
import tarfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from vitbook import datasets, runs
from vitbook.cli.worker import NEEDED, ROOT
from vitbook.cli.workplace import WorkError, Workplace
from vitbook.datasets.catalog import IMAGE_SETS
from vitbook.datasets.cluttered import source_of
from vitbook.datasets.folders import data_root
from vitbook.datasets.stored.shards import find_splits
from vitbook.files import could_not_write
from vitbook.runs import Experiment, PlannedRun, read_experiments
from vitbook.training.objectives.kept_answers import answers_file
from vitbook.training.transfer.start import is_checkpoint

MEBIBYTE = 2**20
# What no run reads; of the rest of data/ come the files that some run names.
LEFT_OUT = ("book", "tests", "tools", "data/checkpoints", "data/results", "data/measurements",
            "data/answers", "data/heads")  # fmt: skip


@dataclass(frozen=True)
class Packed:
    """What lies in a pack, and what was left out of it.

    Attributes:
        runs: that it is for, in their order.
        left_out: why -> so many runs.
        megabytes: all of it, in MiB.
    """

    runs: tuple[PlannedRun, ...]
    left_out: dict[str, int]
    megabytes: float


def pack(
    folder: Path,
    list_file: Path,
    experiments: Sequence[Experiment],
    place: Workplace,
    most: float = 64.0,
) -> Packed:
    """Write the code of the commit, the runs that the ledger lacks, and what these read.

    Args:
        folder: of the pack; must not be there.
        list_file: that the experiments were read from.
        experiments: in the order of their worth.
        place: whose ledger says what is done.
        most: that it may weigh, in MiB.

    Raises:
        WorkError: no commit, nothing to pack, or it would be too heavy; then nothing is left.
        OSError: the disk is full, or the folder not writable.
    """
    if folder.exists() or folder.is_symlink():
        raise WorkError(f"{folder} is there already: choose another folder, or remove it")
    commit = runs.commit()
    if not re.fullmatch(r"[0-9a-f]{40}", commit):
        raise WorkError(f"the checkout is at {commit}, and {NEEDED}: commit what was changed")
    rows = place.done()
    wanted, left_out = _to_make(experiments, place, rows)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as own:
            part = Path(own) / "pack"
            _write_code(part, commit)
            files = dict.fromkeys([*_done(experiments, place, rows), *_read_by(wanted)])
            total = _weigh(part, files, most)
            _write_data(part / "data", list_file, experiments, wanted, files)
            part.rename(folder)
    except OSError as error:
        raise could_not_write(folder, error) from error
    return Packed(wanted, left_out, total)


def chosen_tables(text: str, names: Sequence[str]) -> str:
    """Some tables of a TOML list, each with what belongs to it, in the order of their names."""
    parts = re.split(r"(?m)^(?=\[\w+\])", text)
    by_name = {found[1]: part for part in parts if (found := re.match(r"\[(\w+)\]", part))}
    chosen = "".join(by_name.get(name, "") for name in names)
    whole, now = tomllib.loads(text), tomllib.loads(chosen)
    if now != {name: whole[name] for name in names}:
        raise WorkError("each experiment of the list must stand in one place: its table, its runs")
    return chosen


def _to_make(
    experiments: Sequence[Experiment], place: Workplace, rows: dict[str, runs.Result]
) -> tuple[tuple[PlannedRun, ...], dict[str, int]]:
    """Runs that the ledger lacks and that could be made there; and why others could not be."""
    missing = dict.fromkeys(
        run for each in experiments for run in each.runs if not place.is_done(run, rows)
    )
    why_not = {run: why for run in missing if (why := _lacks(run))}
    left_out = dict(Counter(why_not.values()))
    if len(why_not) == len(missing):
        raise WorkError("nothing to pack: " + ("; ".join(left_out) or "all of it is done"))
    return tuple(run for run in missing if run not in why_not), left_out


def _lacks(run: PlannedRun) -> str:
    """Why it could not be made there; empty if it could."""
    if not datasets.is_here(run.dataset):
        name = source_of(run.dataset)
        return f"{name} is not here: `vitbook data fetch {name}`, or set VITBOOK_DATA"
    for name in (run.start, run.teacher):
        if name and not name.startswith("fresh:") and _file_of(name) is None:
            return f"{name} is no file of the book's own, and its package may not be there"
    return ""


def _file_of(name: str) -> Path | None:
    """Of weights or of kept answers of the book's own."""
    if (kept := answers_file(name)) is not None:
        return kept
    return (
        runs.data_folder() / "checkpoints" / f"{name}.safetensors" if is_checkpoint(name) else None
    )


def _write_code(folder: Path, commit: str) -> None:
    folder.mkdir(parents=True)
    words = ["git", "-C", str(ROOT), "archive", "--format=tar", commit, "--", "."]
    words += [f":(exclude){name}" for name in LEFT_OUT]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as archive:
        try:
            with tarfile.open(fileobj=archive.stdout, mode="r|") as tar:
                tar.extractall(folder, filter="data")
            whole = True
        except tarfile.ReadError:  # git has ended early
            whole = False
    if archive.returncode or not whole:
        raise WorkError(f"git cannot archive {commit[:12]} of {ROOT}: see what it said above")


def _write_data(
    data: Path,
    list_file: Path,
    experiments: Sequence[Experiment],
    wanted: Sequence[PlannedRun],
    files: Iterable[tuple[Path, str]],
) -> None:
    text = list_file.read_text(encoding="utf-8-sig")
    chosen = chosen_tables(text, [each.name for each in experiments])
    (data / "experiments.toml").write_text(chosen, encoding="utf-8")
    cut = read_experiments(data / "experiments.toml")
    there = {run: run.ships for each in cut for run in each.runs}
    for run in wanted:
        if run.ships and not there[run]:
            raise WorkError(
                f"{run.name} ships by an experiment that is not named, and its weights would stay "
                "there: name that one too"
            )
    for name in ("results", "checkpoints"):
        (data / name).mkdir()
    for source, target in files:
        (data / target).parent.mkdir(exist_ok=True)
        shutil.copyfile(source, data / target)


def _done(
    experiments: Sequence[Experiment], place: Workplace, rows: dict[str, runs.Result]
) -> list[tuple[Path, str]]:
    """What is done goes along, so that it is not made twice."""
    files = []
    for run in (run for each in experiments for run in each.runs if place.is_done(run, rows)):
        name = rows[run].name
        files.append((place.ledger / "results" / f"{name}.json", f"results/{name}.json"))
        weights = f"checkpoints/{name}.safetensors"
        files += [(place.ledger / weights, weights)] * run.ships
    return files


def _read_by(wanted: Sequence[PlannedRun]) -> list[tuple[Path, str]]:
    """Files that runs read, and where each lies below ``data``."""
    files = []
    for run in wanted:
        for name in (run.start, run.teacher):
            if name and (path := _file_of(name)) is not None:
                files.append((path, f"{path.parent.name}/{path.name}"))
        if (name := source_of(run.dataset)) in IMAGE_SETS:
            splits = ("train", datasets.held_out_split(name))
            for shards in find_splits(data_root() / name, splits).values():
                files += [(each.path, f"{name}/{each.path.name}") for each in shards.found]
    return files


def _weigh(folder: Path, files: Iterable[tuple[Path, str]], most: float) -> float:
    """All files of the code and those that will lie below ``data``, in MiB; before they do."""
    here = {path.relative_to(folder): path for path in folder.rglob("*") if path.is_file()}
    here |= {Path("data") / target: source for source, target in files}
    weights = {name: path.stat().st_size / MEBIBYTE for name, path in here.items()}
    if (total := sum(weights.values())) > most:
        heavy = sorted(weights, key=weights.get, reverse=True)[:3]
        told = ", ".join(f"{name} {weights[name]:.1f}" for name in heavy)
        raise WorkError(
            f"the pack would weigh {total:.1f} MiB, and {most:g} were allowed ({told}): name fewer "
            "experiments, or allow more by --megabytes"
        )
    return total
