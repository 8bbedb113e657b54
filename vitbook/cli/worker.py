"""Making the runs that the ledger lacks: claim one, make it, collect its row.

The ledger is the state. A runner such as doit or snakemake decides by files what is to be made
and makes it from the start; here a run that was cut off goes on, by the code that began it, and
several processes or machines share a list by locks alone. Hence these lines of our own.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import typer
from filelock import FileLock

from vitbook import runs
from vitbook.cli.workplace import WorkError, Workplace
from vitbook.datasets.folders import data_root
from vitbook.files import write_atomically
from vitbook.runs import PlannedRun
from vitbook.runs.provenance import is_archive

ROOT = Path(__file__).resolve().parents[2]
NEEDED = "a row says which commit made it"
ENDING_S = 120  # seconds that a run gets to write what it has


@dataclass(frozen=True)
class Worker:
    """Makes runs, each in a process of its own.

    Attributes:
        out: of :func:`code_of_commit`, or an empty folder for the files as they are. What is
            begun goes on in its own, by the code that began it.
        options: for ``vitbook train``: threads, device.
        ends: when to stop, in seconds of ``time.monotonic()``.
    """

    place: Workplace
    out: Path
    options: tuple[str, ...]
    ends: float

    def make(self, run: PlannedRun) -> str:
        """Make a run, or go on with it, unless another process does, or has just done so.

        Returns:
            "made", "stopped", "left" or "failed".
        """
        with self.place.claimed(run) as ours:
            if not ours:
                return "left"
            try:
                if self.place.collect(run) or self.place.is_done(run, self.place.done()):
                    return "left"
                return self._make(run)
            except WorkError as error:
                say(f"{run.name}: failed: {error}")
                return "failed"

    def _make(self, run: PlannedRun) -> str:
        state = self.place.begun(run)
        out = state.parent if state else self.out
        out.mkdir(parents=True, exist_ok=True)
        log = out / f"{run.name}.log"
        say(f"{run.name}: {'goes on' if state else 'begins'}, log {os.path.relpath(log)}")
        code, stopped = self._run(run, command_of(run, state, out), log)
        told = log.read_text(errors="replace").strip().splitlines() or ["it said nothing"]
        last = told[-1].rsplit("\r", 1)[-1].removeprefix("vitbook: ")
        if code == 0 and self.place.collect(run):
            say(f"{run.name}: {last}")
            return "made"
        if stopped or last.startswith("stopped "):
            say(f"{run.name}: stopped at {self.place.progress(run)[0]:.0%}, to go on next time")
            return "stopped"
        if last.startswith("another process is writing"):  # whose worker was killed
            return "left"
        if code == 0:
            last = f"it left no row of digest {run.digest}, see {log}"
        if code < 0:
            last = f"ended by {signal.Signals(-code).name}"
        say(f"{run.name}: failed: {last}")
        return "failed"

    def _run(self, run: PlannedRun, words: list[str], log: Path) -> tuple[int, bool]:
        """What the process returned, and whether its time was up."""
        out = log.parent.resolve()
        code = out / "code" if (out / "code").is_dir() else ROOT
        environment = os.environ | {
            "VITBOOK_DATA": str(data_root().resolve()),
            "VITBOOK_PARENT": str(os.getpid()),
            "TQDM_MININTERVAL": "10",
            "PYTHONPATH": f"{code}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        }
        words = ["-m", "vitbook", *words, *self.options, "--out", os.path.relpath(out, code)]
        with log.open("w") as writing:
            child = subprocess.Popen(
                [sys.executable, *words], cwd=code, env=environment, stdin=subprocess.DEVNULL,
                stdout=writing, stderr=writing,
            )  # fmt: skip
            try:
                while child.poll() is None and (left := self.ends - time.monotonic()) > 0:
                    try:
                        child.wait(min(60, left))
                    except subprocess.TimeoutExpired:
                        share, rate = self.place.progress(run)
                        say(f"{run.name}: {share:.0%}, {rate:.0f} images/s")
                stopped = child.poll() is None
            finally:
                _end(child)
        return child.returncode, stopped


def code_of_commit(folder: Path) -> Path:
    """A folder with a clone of the checkout at its commit, so that editing does not touch it.

    What ``vitbook experiments pack`` wrote is used as it is.

    Raises:
        WorkError: no checkout, or tracked files that differ from the commit.
    """
    if is_archive():
        return folder / runs.commit()[:12]
    if Path(git("-C", str(ROOT), "rev-parse", "--show-toplevel")) != ROOT:
        raise WorkError(f"{ROOT} is part of another git checkout: clone vitbook's own repository")
    commit = runs.commit()
    if commit.endswith("+"):
        raise WorkError(
            f"files in {ROOT} differ from their commit, and {NEEDED}: commit them, or add "
            "--dirty, and the rows will say so"
        )
    out = folder / commit[:12]
    out.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "code.lock"):
        if not (out / "code").exists():
            part = out / "code.part"
            shutil.rmtree(part, ignore_errors=True)
            git("clone", "--quiet", "--no-checkout", str(ROOT), str(part))
            git("-C", str(part), "checkout", "--quiet", commit)
            part.rename(out / "code")
    return out


def command_of(run: PlannedRun, state: Path | None, out: Path) -> list[str]:
    """The words that began a run, which its own code understands, or those that begin it."""
    path = out / f"{state.stem if state else run.name}.command"
    if state is None or not path.is_file():
        write_atomically(path, json.dumps(run.command).encode())
    return json.loads(path.read_text())


def say(line: str) -> None:
    typer.echo(f"[{time.strftime('%H:%M:%S')}] {line}")
    sys.stdout.flush()


def git(*words: str) -> str:
    try:
        done = subprocess.run(["git", *words], capture_output=True, text=True)
    except FileNotFoundError as error:
        raise WorkError(f"git is not installed, and {NEEDED}: install it") from error
    if done.returncode:
        said = " ".join(done.stderr.split()) or done.returncode
        raise WorkError(f"git cannot read {ROOT}, and {NEEDED} ({said}): clone the repository")
    return done.stdout.strip()


def _end(child: subprocess.Popen) -> None:
    child.terminate()
    try:
        child.wait(ENDING_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
