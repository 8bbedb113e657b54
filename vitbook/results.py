"""The ledger: every number that the book did not compute in a cell, with its provenance."""

import json
import os
import platform
import subprocess
import sys
from dataclasses import MISSING, asdict, dataclass, fields
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

import torch

from vitbook.files import write_atomically


class LedgerError(ValueError):
    """A row that does not say what a row must say."""


@dataclass(frozen=True)
class Result:
    """One training run.

    Attributes:
        accuracy: top-1 on the held-out data, 0 to 1.
        curve: a row an epoch: epoch, loss, learning_rate, accuracy.
        probes: what was seen in the model after some epochs; empty if nobody looked.
        data_passes: times that a picture was shown, on average.
        wall_time_s: of training, evaluation and probes, on ``device``.
        images_per_second: in training alone, over all ``processes``.
        peak_memory_mb: on a GPU by torch's allocator, else of the whole process, data included.
        precision: of the forward pass in training.
        device: the processor's or GPU's own name.
        commit: of the code, with "+" if files had changed; "unknown" outside a checkout.
        provenance: of the data.
        share: of each class's training images, 0 to 1.
        share_seed: that drew them.
        experiment: of ``data/experiments.toml`` that the run answers; empty if none.
        definition: digest of all that decides the run, if it answers an experiment.
    """

    model: str
    parameters: int
    dataset: str
    recipe: dict
    seed: int
    accuracy: float
    curve: list[dict]
    probes: list[dict]
    data_passes: float
    wall_time_s: float
    images_per_second: float
    peak_memory_mb: int
    precision: str
    processes: int
    device: str
    versions: dict[str, str]
    commit: str
    command: str
    provenance: dict
    share: float | int = 1.0
    share_seed: int = 0
    experiment: str = ""
    definition: str = ""

    def __post_init__(self):
        if not 0 <= self.accuracy <= 1:
            raise LedgerError(f"accuracy {self.accuracy}: expected a share from 0 to 1")
        for name in ("parameters", "data_passes", "wall_time_s", "images_per_second"):
            if not getattr(self, name) > 0:
                raise LedgerError(f"{name} {getattr(self, name)}: expected more than 0")

    @property
    def name(self) -> str:
        if self.experiment:
            return experiment_run_name(self.experiment, self.model, self.seed, self.definition)
        return run_name(self.dataset, self.model, self.recipe["name"], self.seed)


@dataclass(frozen=True)
class Measurement:
    """What was measured of models that stand: their speed, how right their explanations are.

    Attributes:
        kind: what the rows mean, and who wrote them: "bench", "explanations".
        subject: what was measured: a model, or a checkpoint by name.
        settings: how: pictures, batch, precision, and what else the kind needs to be repeated.
        rows: a line each, all with the same keys.
        device: the processor's or GPU's own name.
        commit: as in :class:`Result`.
    """

    kind: str
    subject: str
    settings: dict
    rows: list[dict]
    device: str
    versions: dict[str, str]
    commit: str
    command: str

    def __post_init__(self):
        if not self.rows or any(row.keys() != self.rows[0].keys() for row in self.rows):
            raise LedgerError(
                f"{self.kind} of {self.subject}: {len(self.rows)} rows: expected at least one, "
                "all with the same keys"
            )

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.subject}"


WIDE_VECTORS = "AVX-512"
FOLDERS = {Result: "results", Measurement: "measurements"}
Row = TypeVar("Row", Result, Measurement)


def run_name(dataset: str, model: str, recipe: str, seed: int) -> str:
    """What the files of a run are called."""
    return f"{dataset}-{model}-{recipe}-seed{seed}"


def experiment_run_name(experiment: str, model: str, seed: int, definition: str) -> str:
    """What the files of a run are called that answers an experiment."""
    return f"{experiment}-{model}-seed{seed}-{definition}"


def data_folder() -> Path:
    """``data/`` of the checkout, or the copy inside an installed package."""
    here = Path(__file__).resolve().parent
    checkout = here.parent / "data"
    return checkout if (checkout / "results").is_dir() else here / "_data"


def record(result: Result | Measurement, folder: str | Path | None = None) -> Path:
    """Write a row of the ledger; what is repeated takes the place of the old one."""
    folder = Path(folder) if folder is not None else data_folder() / FOLDERS[type(result)]
    text = json.dumps(asdict(result), indent=1, sort_keys=True) + "\n"
    return write_atomically(folder / f"{result.name}.json", text.encode())


def read(folder: str | Path | None = None) -> list[Result]:
    """All training runs, by name.

    Raises:
        LedgerError: a file that is not a row; names the file and what is wrong with it.
    """
    return _read(Result, folder)


def measurements(
    kind: str | None = None, subject: str | None = None, folder: str | Path | None = None
) -> list[Measurement]:
    """All measurements, by name; or those of a kind, of a subject.

    Raises:
        LedgerError: as :func:`read`.
    """
    return [
        row
        for row in _read(Measurement, folder)
        if kind in (None, row.kind) and subject in (None, row.subject)
    ]


def _read(of: type[Row], folder: str | Path | None) -> list[Row]:
    folder = Path(folder) if folder is not None else data_folder() / FOLDERS[of]
    return [read_row(path, of) for path in sorted(folder.glob("*.json"))]


def read_row(path: Path, of: type[Row] = Result) -> Row:
    """One row of the ledger.

    Raises:
        LedgerError: a file that is not a row; names it and what is wrong with it.
        FileNotFoundError: no such file.
    """
    known = {field.name for field in fields(of)}
    needed = {field.name for field in fields(of) if field.default is MISSING}
    try:
        content = json.loads(path.read_text())
        if not needed <= content.keys() <= known:
            odd = ", ".join(sorted((needed - content.keys()) | (content.keys() - known)))
            raise LedgerError(f"missing or unknown: {odd}")
        return of(**content)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise LedgerError(
            f"{path} is no row of the ledger ({error}): restore it, or remove it"
        ) from error


def published(**which: str) -> list[dict]:
    """Numbers that others printed, each with its ``source``.

    Args:
        which: for example ``quantity="macs", model="vit_base_patch16_224"``; all if empty.
    """
    rows = json.loads((data_folder() / "published.json").read_text())
    return [row for row in rows if which.items() <= row.items()]


def versions() -> dict[str, str]:
    return {"python": platform.python_version()} | {
        name: version(name) for name in ("torch", "torchvision", "numpy", "vitbook")
    }


def commit() -> str:
    git = ["git", "-C", str(Path(__file__).resolve().parent)]
    try:
        name = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, check=True)
        changed = subprocess.run([*git, "status", "--porcelain", "-uno"], capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return name.stdout.decode().strip() + ("+" if changed.stdout.strip() else "")


def made_on(device: str | torch.device) -> dict:
    """What every row says of its making: device, versions, commit and command."""
    return {
        "device": device_name(device),
        "versions": versions(),
        "commit": commit(),
        "command": command(),
    }


def command() -> str:
    """As it was typed, but for the folders in front of the program's name."""
    name = Path(sys.argv[0]).name
    return " ".join(["python -m vitbook" if name == "__main__.py" else name, *sys.argv[1:]])


@cache
def device_name(device: str | torch.device) -> str:
    """ "NVIDIA H200", or the processor's name, the threads that torch uses, and whether MKL was
    told to use AVX-512 on a processor where by itself it would not."""
    device = torch.device(device)
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    name = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                name = line.split(":", 1)[1].strip()
                break
    threads = torch.get_num_threads()
    name = f"{name}, {threads} thread{'s' * (threads > 1)}"
    return name + f", {WIDE_VECTORS}" * (WIDE_VECTORS in os.environ.get("LD_PRELOAD", ""))


def table(rows: list[Result]) -> list[dict[str, str]]:
    """A line for each model, data set and recipe: what the seeds have in common stands once.

    Accuracy is the mean over seeds, with the lowest and the highest where there are several.
    """
    groups: dict[tuple, list[Result]] = {}
    for row in rows:
        recipe = json.dumps(row.recipe, sort_keys=True)
        key = (row.dataset, row.share, row.share_seed, row.model, recipe, row.device)
        groups.setdefault(key, []).append(row)
    return [_line(group) for group in groups.values()]


def accuracy_of(group: list[Result]) -> str:
    """The mean over seeds, with the lowest and the highest of several."""
    scores = [row.accuracy for row in group]
    mean = f"{sum(scores) / len(scores):.2%}"
    return mean + (f" ({min(scores):.2%} to {max(scores):.2%})" if len(scores) > 1 else "")


def _line(group: list[Result]) -> dict[str, str]:
    first = group[0]
    return {
        "data": first.provenance["name"],
        # A second head that no teacher spoke to has distilled nothing.
        "model": first.model + " (no teacher)" * ("distilled" in first.model),
        "parameters": f"{first.parameters:,}",
        "recipe": first.recipe["name"],
        "data passes": f"{first.data_passes:.0f}",
        "seeds": ", ".join(str(row.seed) for row in sorted(group, key=lambda row: row.seed)),
        "accuracy": accuracy_of(group),
        "minutes": f"{max(row.wall_time_s for row in group) / 60:.0f}",
        "images/s": f"{max(row.images_per_second for row in group):,.0f}",
        "device": first.device,
    }
