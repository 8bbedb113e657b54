"""The state of a list of runs: the ledger, and beside it what is begun and who makes it."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout
from safetensors import SafetensorError, safe_open

from vitbook import results
from vitbook.files import write_atomically
from vitbook.results import Result
from vitbook.training import PlannedRun


@dataclass(frozen=True)
class Workplace:
    """Where runs are made, and where they go.

    Attributes:
        folder: a folder for each commit, with its code and the runs that it began.
        ledger: with ``results`` and ``checkpoints``.
    """

    folder: Path
    ledger: Path

    def done(self) -> dict[str, Result]:
        """The rows of the ledger by the digest of what they answer."""
        rows = results.read(self.ledger / "results")
        return {run.digest: row for row in rows if (run := PlannedRun.of(row)) is not None}

    def is_done(self, run: PlannedRun, rows: dict[str, Result]) -> bool:
        row = rows.get(run.digest)
        return row is not None and (not run.ships or self.checkpoint(row).is_file())

    def checkpoint(self, row: Result) -> Path:
        return self.ledger / "checkpoints" / f"{row.name}.safetensors"

    def begun(self, run: PlannedRun) -> Path | None:
        """The unfinished state of a run, in the folder of the commit that began it."""
        return next(iter(sorted(self.folder.glob(f"*/{run.name}.unfinished"))), None)

    def progress(self, run: PlannedRun) -> tuple[float, float]:
        """Which share of a run is done (0 to 1), and at how many images a second."""
        state = self.begun(run)
        if state is None:
            return 0.0, 0.0
        try:
            with safe_open(state, framework="np") as file:
                reached = json.loads(file.metadata()["progress"])
        except (SafetensorError, OSError, KeyError, TypeError, ValueError):
            return 0.0, 0.0  # its own run will say what is wrong with it
        shown = reached["step"] * run.recipe.batch_size
        return shown / run.images, shown / max(reached["training_s"], 1e-9)

    def _claim(self, run: PlannedRun) -> Path:
        return self.folder / "claims" / f"{run.name}.lock"

    def state(self, run: PlannedRun, rows: dict[str, Result]) -> str:
        """ "done", "running", "begun" or "missing"."""
        if self.is_done(run, rows):
            return "done"
        if self._claim(run).exists():  # else nobody ever took it
            with self.claimed(run) as free:
                if not free:
                    return "running"
        return "begun" if self.begun(run) else "missing"

    @contextmanager
    def claimed(self, run: PlannedRun) -> Iterator[bool]:
        """Whether the run is ours; until the block ends no other process makes it."""
        locks = [self._claim(run)]
        locks[0].parent.mkdir(parents=True, exist_ok=True)
        # The second lock is that of the run itself, which a killed worker may have left behind.
        if state := self.begun(run):
            locks.append(state.with_suffix(".lock"))
        held = []
        try:
            for path in locks:
                held.append(FileLock(path, timeout=0.5))
                held[-1].acquire()
            if len(held) > 1:
                held[1].release()  # the run takes it itself
            yield True
        except Timeout:
            yield False
        finally:
            for lock in held:
                lock.release()

    def collect(self, runs: Iterable[PlannedRun]) -> None:
        """Carry finished runs into the ledger: first the checkpoint, if it ships, then the row."""
        for run in runs:
            for path in self.folder.glob(f"*/{run.name}.json"):
                (row,) = [row for row in results.read(path.parent) if row.name == run.name]
                if run.ships:
                    weights = path.with_suffix(".safetensors").read_bytes()
                    write_atomically(self.checkpoint(row), weights)
                results.record(row, self.ledger / "results")
                path.unlink(missing_ok=True)
