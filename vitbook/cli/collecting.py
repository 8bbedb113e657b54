"""Rows that were made in a pack on another machine: each is checked, and enters the ledger."""

import hashlib
import re
from collections.abc import Collection, Iterable
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

import torch

from vitbook import runs
from vitbook.cli.worker import ROOT, git
from vitbook.cli.workplace import WorkError, Workplace
from vitbook.files import write_atomically
from vitbook.runs import Experiment, PlannedRun
from vitbook.training.faults import load_checkpoint

SUBSTITUTED = "vitbook/runs/provenance.py"  # see .gitattributes


def collect(
    folder: Path, experiments: Iterable[Experiment], place: Workplace
) -> tuple[list[str], dict[str, str]]:
    """Carry rows that were made in a pack into the ledger, each after a check.

    Returns:
        Names of the rows that came in; of those that did not -> why.

    Raises:
        WorkError: no pack.
        OSError: the disk is full.
    """
    found = folder / "data" / "results"
    if not found.is_dir():
        raise WorkError(f"no {found}: expected a folder that `vitbook experiments pack` wrote")
    asked = {run: run for each in experiments for run in each.runs}
    came, stayed, rows = [], {}, place.done()
    edited = cache(_edited)  # rows of one pack name one commit
    for path in sorted(found.glob("*.json")):
        try:
            row = runs.read_row(path)
            run = asked.get(of_row := PlannedRun.of(row), of_row)  # it knows whether it ships
            if run is not None and place.is_done(run, rows):
                continue  # it went there with the pack, or was collected before
            weights = folder / "data" / "checkpoints" / f"{row.name}.safetensors"
            if why := _wrong(row, run, asked, weights) or edited(folder, row.commit):
                stayed[path.name] = why
                continue
            row = replace(row, experiment=run.experiment)  # a shorter list has another first asker
            if run.ships:
                kept = place.ledger / "checkpoints" / f"{row.name}.safetensors"
                write_atomically(kept, weights.read_bytes())
            runs.record(row, place.ledger / "results")
        except (runs.LedgerError, ValueError, IsADirectoryError, FileNotFoundError) as error:
            stayed[path.name] = str(error)
        else:
            came.append(row.name)
    return came, stayed


def _wrong(
    row: runs.Result, run: PlannedRun | None, asked: Collection[PlannedRun], weights: Path
) -> str:
    """What speaks against a row; empty if nothing."""
    if run is None or run.digest != row.definition:
        return "its settings are not those that it is called after"
    if run not in asked:
        return "no experiment of the list asks for it"
    if not re.fullmatch(r"[0-9a-f]{40}(\+)?|unknown", row.commit):
        return f"commit {row.commit[:40]!r}: expected all 40 digits of one, as names move on"
    try:
        git("-C", str(ROOT), "cat-file", "-e", f"{row.commit}^{{commit}}")
    except WorkError:
        return f"commit {row.commit[:12]} is none of this checkout's: fetch it"
    scores = [point["accuracy"] for point in row.curve if "accuracy" in point]
    if len(row.curve) != run.recipe.epochs or (scores and scores[-1] != row.accuracy):
        return f"{len(row.curve)} epochs that end at {scores[-1:]}: a row of another run"
    if not run.ships:
        return ""
    if not weights.is_file():
        return f"{weights.name} is not beside it, which ships"
    loaded = load_checkpoint(weights)  # of the catalogue's shapes, else it raises
    if loaded.model.spec.name != row.model:
        return f"its weights are those of {loaded.model.spec.name}"
    told = asdict(row)
    for key in told:
        if key not in ("curve", "probes") and loaded.provenance.get(key) != told[key]:
            return f"its weights are those of another training: they say another {key}"
    if not all(torch.isfinite(tensor).all() for tensor in loaded.model.state_dict().values()):
        return "its weights hold NaN or infinity"
    return ""


def _edited(folder: Path, commit: str) -> str:
    """Which code of the pack is not that of the commit that its rows name; empty if none."""
    for line in git("-C", str(ROOT), "ls-tree", "-r", commit, "--", "vitbook").splitlines():
        about, path = line.split("\t")
        if not (folder / path).is_file():
            continue  # it did not come back
        content = (folder / path).read_bytes()
        if path == SUBSTITUTED:
            content = content.replace(commit.encode(), b"$Format:%H$")
        whole = hashlib.sha1(b"blob %d\0" % len(content) + content)
        if whole.hexdigest() != about.split()[2]:
            return f"{path} there is not that of commit {commit[:12]}, which the row names"
    return ""
