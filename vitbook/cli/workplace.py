"""The state of a list of runs: the ledger, and beside it what is begun and who makes it."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout
from safetensors import SafetensorError, safe_open

from vitbook import runs
from vitbook.files import write_atomically
from vitbook.runs import PlannedRun, Result

DIRTY = "dirty"  # the folder of runs that are made by files as they are


class WorkError(RuntimeError):
    """The list cannot be worked off: why, and what to do."""


@dataclass(frozen=True)
class Workplace:
    """Where runs are made, and where they go. All files of a run end in its digest.

    Attributes:
        folder: a folder for each commit, with its code and the runs that it began.
        ledger: with ``results`` and ``checkpoints``.
        dirty: go on with what the files as they were have begun; else only with what a commit has.

    Raises:
        ValueError: one of the two folders lies in the other.
    """

    folder: Path
    ledger: Path
    dirty: bool = False

    def __post_init__(self):
        folder, ledger = self.folder.resolve(), self.ledger.resolve()
        if folder.is_relative_to(ledger) or ledger.is_relative_to(folder):
            raise ValueError(
                f"the folder of unfinished runs, {folder}, and that of the ledger, {ledger}, lie "
                "in each other: choose two apart"
            )

    def done(self) -> dict[PlannedRun, Result]:
        """Run -> the row of the ledger that answers it, one with a checkpoint first."""
        rows = runs.read_all(self.ledger / "results")
        return runs.answers(rows) | runs.answers(
            row for row in rows if self._checkpoint(row).is_file()
        )

    def is_done(self, run: PlannedRun, rows: Mapping[PlannedRun, Result]) -> bool:
        row = rows.get(run)
        return row is not None and (not run.ships or self._checkpoint(row).is_file())

    def state(self, run: PlannedRun, rows: Mapping[PlannedRun, Result]) -> str:
        """ "done", "running", "begun" or "missing"."""
        if self.is_done(run, rows) or self._files(run, "json"):
            return "done"
        if self._claim(run).exists():  # else nobody ever took it
            with self.claimed(run) as free:
                if not free:
                    return "running"
        return "begun" if self.begun(run) else "missing"

    def begun(self, run: PlannedRun) -> Path | None:
        """The unfinished state of a run, the furthest if several commits have begun it."""
        states = self._files(run, "unfinished")
        return max(states, key=lambda state: _reached(state)[0], default=None)

    def progress(self, run: PlannedRun) -> tuple[float, float]:
        """Which share of a run is done (0 to 1), and at how many images a second."""
        state = self.begun(run)
        step, seconds = _reached(state) if state else (0, 0.0)
        shown = step * run.recipe.batch_size
        return min(shown / run.images, 1.0), shown / seconds if seconds > 0 else 0.0

    @contextmanager
    def claimed(self, run: PlannedRun) -> Iterator[bool]:
        """Whether the run is ours; until the block ends no other process makes it."""
        self._claim(run).parent.mkdir(parents=True, exist_ok=True)
        claim = FileLock(self._claim(run), timeout=0.5)  # others look for a moment
        try:
            claim.acquire()
            for path in self._files(run, "lock"):  # of a run that goes on, its worker killed
                with FileLock(path, timeout=0.5):  # for a moment: a run takes it itself
                    pass
            yield True
        except Timeout:
            yield False
        finally:
            claim.release()

    def collect(self, run: PlannedRun) -> bool:
        """Carry a finished run into the ledger: first the checkpoint, if it ships, then the row.

        Returns:
            Whether there was one.

        Raises:
            WorkError: its files are damaged.
            OSError: the disk is full.
        """
        paths = self._files(run, "json")
        for path in paths:
            weights = path.with_suffix(".safetensors")
            try:
                row = runs.read_row(path)
                if run.ships:
                    with safe_open(weights, framework="np"):
                        write_atomically(self._checkpoint(row), weights.read_bytes())
            except (FileNotFoundError, runs.LedgerError, SafetensorError) as error:
                raise WorkError(
                    f"{path} or its checkpoint is damaged ({error}): remove both, and the run is "
                    "made again"
                ) from error
            runs.record(row, self.ledger / "results")
            path.unlink()
        return bool(paths)

    def _files(self, run: PlannedRun, ending: str) -> list[Path]:
        """Of a run, in the folders of the commits that may have made them."""
        found = self.folder.glob(f"*/*-{run.digest}.{ending}")
        return sorted(path for path in found if self.dirty or path.parent.name != DIRTY)

    def _checkpoint(self, row: Result) -> Path:
        return self.ledger / "checkpoints" / f"{row.name}.safetensors"

    def _claim(self, run: PlannedRun) -> Path:
        return self.folder / "claims" / f"{run.digest}.lock"


def _reached(state: Path) -> tuple[int, float]:
    """Steps of an unfinished run, and the seconds that they took."""
    try:
        with safe_open(state, framework="np") as file:
            reached = json.loads(file.metadata()["progress"])
        return int(reached["step"]), float(reached["training_s"])
    except (SafetensorError, OSError, KeyError, TypeError, ValueError):
        return 0, 0.0  # its own run will say what is wrong with it
