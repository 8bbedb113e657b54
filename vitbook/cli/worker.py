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
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from vitbook import runs
from vitbook.cli.workplace import WorkError, Workplace
from vitbook.datasets.folders import data_root
from vitbook.files import write_atomically
from vitbook.runs import PlannedRun

ROOT = Path(__file__).resolve().parents[2]
NEEDED = "a row says which commit made it"
ENDING_S = 120  # seconds that a run gets to write what it has


def code_of_commit(folder: Path) -> Path:
    """A folder with a clone of the checkout at its commit, so that editing does not touch it.

    Raises:
        WorkError: no checkout, or tracked files that differ from the commit.
    """
    if Path(_git("-C", str(ROOT), "rev-parse", "--show-toplevel")) != ROOT:
        raise WorkError(f"{ROOT} is part of another git checkout: clone vitbook's own repository")
    commit = runs.commit()
    if commit.endswith("+"):
        raise WorkError(
            f"files in {ROOT} differ from their commit, and a row says which commit made it: "
            "commit them, or add --dirty, and the rows will say so"
        )
    out = folder / commit[:12]
    code = out / "code"
    out.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "code.lock"):
        if not code.exists():
            part = code.with_name("code.part")
            shutil.rmtree(part, ignore_errors=True)
            _git("clone", "--quiet", "--no-checkout", str(ROOT), str(part))
            _git("-C", str(part), "checkout", "--quiet", commit)
            part.rename(code)
    return out


def _git(*words: str) -> str:
    try:
        done = subprocess.run(["git", *words], capture_output=True, text=True)
    except FileNotFoundError as error:
        raise WorkError(f"git is not installed, and {NEEDED}: install it") from error
    if done.returncode:
        said = " ".join(done.stderr.split()) or done.returncode
        raise WorkError(f"git cannot read {ROOT}, and {NEEDED} ({said}): clone the repository")
    return done.stdout.strip()


def make_if_missing(
    run: PlannedRun,
    place: Workplace,
    out: Path,
    options: list[str],
    ends: float,
    say: Callable[[str], None],
) -> str:
    """:func:`make`, unless another process makes the run, or has just made it.

    Returns:
        As :func:`make`, or "left".
    """
    with place.claimed(run) as ours:
        try:
            if not ours or place.collect(run) or place.is_done(run, place.done()):
                return "left"
            return make(run, place, out, options, ends, say)
        except WorkError as error:
            say(f"{run.name}: failed: {error}")
            return "failed"


def make(
    run: PlannedRun,
    place: Workplace,
    out: Path,
    options: list[str],
    ends: float,
    say: Callable[[str], None],
) -> str:
    """Make one run in a process of its own, or go on with it.

    Args:
        out: of :func:`code_of_commit`, or an empty folder for the files as they are. What is
            begun goes on in its own, by the code that began it.
        options: for ``vitbook train``: threads, device.
        ends: when to stop, in seconds of ``time.monotonic()``.
        say: is given a line now and then.

    Returns:
        "made", "stopped" or "failed".
    """
    state = place.begun(run)
    out = state.parent if state else out
    out.mkdir(parents=True, exist_ok=True)
    code = out / "code" if (out / "code").is_dir() else ROOT
    log, words = out / f"{run.name}.log", _command(run, state, out)
    words += [*options, "--out", os.path.relpath(out.resolve(), code.resolve())]
    environment = os.environ | {
        "VITBOOK_DATA": str(data_root().resolve()),
        "VITBOOK_PARENT": str(os.getpid()),
        "TQDM_MININTERVAL": "10",
        "PYTHONPATH": f"{code.resolve()}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
    }
    say(f"{run.name}: {'goes on' if state else 'begins'}, log {os.path.relpath(log)}")
    with log.open("w") as writing:
        child = subprocess.Popen(
            [sys.executable, "-m", "vitbook", *words],
            cwd=code,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=writing,
        )
        try:
            stopped = _wait(child, run, place, ends, say)
        finally:
            _end(child)
    told = log.read_text(errors="replace").strip().splitlines() or ["it said nothing"]
    last = told[-1].rsplit("\r", 1)[-1].removeprefix("vitbook: ")
    if child.returncode < 0:
        last = f"ended by {signal.Signals(-child.returncode).name}"
    if child.returncode == 0 and place.collect(run):
        say(f"{run.name}: {last}")
        return "made"
    if stopped or last.startswith("stopped "):
        say(f"{run.name}: stopped at {place.progress(run)[0]:.0%}, to go on next time")
        return "stopped"
    if last.startswith("another process is writing"):
        return "left"
    if child.returncode == 0:
        last = f"it left no row of digest {run.digest}, see {log}"
    say(f"{run.name}: failed: {last}")
    return "failed"


def _command(run: PlannedRun, state: Path | None, out: Path) -> list[str]:
    """The words that began a run, which its own code understands, or those that begin it."""
    path = out / f"{state.stem if state else run.name}.command"
    if state is None or not path.is_file():
        write_atomically(path, json.dumps(run.command).encode())
    return json.loads(path.read_text())


def _wait(child, run: PlannedRun, place: Workplace, ends: float, say) -> bool:
    """Until the run ends or its time is up, which is what is returned."""
    said = time.monotonic()
    while child.poll() is None:
        if time.monotonic() >= ends:
            return True
        if time.monotonic() - said >= 60:
            share, rate = place.progress(run)
            say(f"{run.name}: {share:.0%}, {rate:.0f} images/s")
            said = time.monotonic()
        time.sleep(0.2)
    return False


def _end(child: subprocess.Popen) -> None:
    child.terminate()
    try:
        child.wait(ENDING_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
