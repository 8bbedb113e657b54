"""A chapter's one switch: its models as the book has them, or trained here at full strength.

The two are experiments of the list, ``NAME`` and ``NAME_gpu``, with the same roles, so that the
code of a chapter is the same: it asks for "plain" and "rotated", whatever these are called.
"""

import hashlib
import math
import re
import textwrap
import time
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from vitbook import datasets, runs
from vitbook.datasets import Dataset
from vitbook.devices import autocast, choose_device, synchronize, training_dtype
from vitbook.errors import UnknownNameError
from vitbook.models import create_model, default_image_size
from vitbook.runs import Comparison, Experiment, OneRun, PlannedRun, Result, Spread
from vitbook.runs.planned_run import num_images
from vitbook.training.faults import load_checkpoint, plant
from vitbook.training.one_run import run
from vitbook.training.transfer.start import is_checkpoint

SCALES = ("page", "gpu")
DRIVE = Path("/content/drive/MyDrive")  # of Colab, once it is mounted
FEW = 0.1  # of the budget: below it, one seed of each role
WIDE = 102  # characters of a line of output on the page
TIMED = 32  # images of the step that is timed on a CPU


class TooLongError(RuntimeError):
    """What was asked for would take longer than it may."""


@dataclass(frozen=True)
class AtScale:
    """Runs of a chapter by role, and what it asks of them.

    Attributes:
        experiment: with the runs as they are planned.
        scale: "page" or "gpu".
        planned: role -> its runs, cut to the budget.
        folder: of runs that are made here.
        device: that they are made on.
    """

    experiment: Experiment
    scale: str
    planned: dict[str, tuple[PlannedRun, ...]]
    folder: Path
    device: torch.device

    @cached_property
    def _found(self) -> dict[PlannedRun, Result]:
        """The rows of the ledger and of the folder, by the run that they answer."""
        rows = [*runs.read_all(), *(runs.read_all(self.folder) if self.folder.is_dir() else ())]
        return {own.unprobed: row for row in rows if (own := PlannedRun.of(row)) is not None}

    @property
    def missing(self) -> list[PlannedRun]:
        """Runs that nobody has made yet."""
        asked = dict.fromkeys(run for some in self.planned.values() for run in some)
        return [run for run in asked if run not in self._found]

    def rows(self, role: str) -> list[Result]:
        """The rows of a role, one for each seed.

        Raises:
            UnknownNameError: no such role.
        """
        return [self._found[run] for run in self._runs(role)]

    def _runs(self, role: str) -> tuple[PlannedRun, ...]:
        if role not in self.planned:
            raise UnknownNameError(f"role of {self.experiment.name}", role, self.planned)
        return self.planned[role]

    def model(self, role: str, seed: int = 0, image_size: int | None = None) -> nn.Module:
        """A trained model, for evaluation, on ``device``.

        At scale "gpu" a run whose weights the ledger does not have is made here.

        Args:
            image_size: with its positions resized; by default the size that it learned from.

        Raises:
            UnknownNameError: no such role, or a seed whose weights are not there.
        """
        kept = self.weights(role, seed)
        return load_checkpoint(kept, image_size=image_size).model.to(self.device)

    def weights(self, role: str, seed: int = 0) -> str | Path:
        """The checkpoint of :meth:`model`, its name or its file, for another run to start from."""
        of_seed = {each.seed: each for each in self._runs(role)}
        if seed not in of_seed:
            raise UnknownNameError(f"seed of {role}", str(seed), map(str, of_seed))
        wanted = of_seed[seed]
        row = self._found[wanted]
        path = self.folder / f"{row.name}.safetensors"
        if path.is_file() or is_checkpoint(row.name):
            return path if path.is_file() else row.name
        if self.scale == "page":
            shipped = [str(s) for s, r in of_seed.items() if is_checkpoint(self._found[r].name)]
            raise UnknownNameError(f"seed of {role} whose weights the book has", str(seed), shipped)
        print(f"The ledger has the row of {role}, seed {seed}, and not its weights: training.")
        path.with_suffix(".json").unlink(missing_ok=True)  # a row of this folder, made again whole
        self._make(wanted)
        return self.weights(role, seed)

    @property
    def seeds(self) -> tuple[int, ...]:
        """Of the first role."""
        return tuple(run.seed for run in next(iter(self.planned.values())))

    def dataset(self, split: str | None = None) -> Dataset:
        """The images of all runs, in their size; by default the held-out ones."""
        first = self._runs(next(iter(self.planned)))[0]
        size = first.recipe.image_size or default_image_size(first.model)
        held_out = datasets.held_out_split(first.dataset)
        return datasets.load(first.dataset, split or held_out, image_size=size)

    def accuracy(self, role: str) -> Spread | OneRun:
        """Held-out accuracy in percent, over the seeds."""
        rows = self.rows(role)
        held_out = num_images(rows[0].dataset, datasets.held_out_split(rows[0].dataset))
        return runs.summary([100 * row.accuracy for row in rows], held_out)

    def compare(self, ours: str, theirs: str, **options: Any) -> Comparison:
        """One role against another, see :func:`vitbook.runs.compare`."""
        return runs.compare(self.rows(ours), self.rows(theirs), **options)

    def expect(self, sentence: str, holds: bool) -> None:
        """What the book's own models show: of others it is told whether it holds, and no stop.

        Raises:
            AssertionError: at scale "page" it does not hold.
        """
        if self.scale == "page":
            assert holds, sentence
        else:
            print(f"{'holds' if holds else 'does not hold'} for {self}: {sentence}")

    @property
    def cost(self) -> str:
        """What its runs took: time, pace, memory."""
        rows = [self._found[run] for some in self.planned.values() for run in some]
        paces = sorted(row.images_per_second for row in rows)
        minutes = sum(row.wall_time_s for row in rows) / 60
        memory = max(row.peak_memory_mb for row in rows) * 1e6 / 2**30
        return (
            f"{minutes:.1f} minutes in all, {paces[0]:,.0f} to {paces[-1]:,.0f} images a second in "
            f"training, {memory:.1f} GiB at most"
        )

    def __str__(self) -> str:
        """Where the numbers come from: data, epochs, seeds, devices."""
        planned = [run for some in self.planned.values() for run in some]
        rows = [self._found[run] for run in planned if run in self._found]
        seeds = sorted({run.seed for run in planned})
        told = f"seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"seed {seeds[0]}"
        steps = sorted({run.steps for run in planned})
        counts = f"{steps[0]:,}" + (f" to {steps[-1]:,}" if len(steps) > 1 else "")
        made = "; ".join(sorted({row.device for row in rows})) or "not run"
        names = sorted({run.dataset for run in planned})
        return f"{' and '.join(names)}, {counts} step{'s' * (counts != '1')}, {told}, on {made}"

    @torch.enable_grad()  # a chapter that only reads may have switched it off
    def _make(self, wanted: PlannedRun) -> None:
        row = run(
            wanted.model, wanted.dataset, wanted.recipe, seed=wanted.seed, share=wanted.share,
            share_seed=wanted.share_seed, start=wanted.start, teacher=wanted.teacher,
            experiment=self.experiment.name, folder=self.folder, device=str(self.device),
            checkpoint_dtype=torch.float16, plant=plant,
        )  # fmt: skip
        self._found[wanted] = row


def at_scale(
    name: str,
    scale: str = "page",
    budget: float | int = 1.0,
    *,
    minutes: float | int = 40,
    folder: str | Path | None = None,
    device: str | None = None,
) -> AtScale:
    """The runs of an experiment, or those of ``NAME_gpu``, which are made here where they lack.

    A run that was cut off goes on when the same cell is run again. Weights and rows lie in
    ``folder``, below a folder for each version of the code: what another version made is not read.

    Args:
        name: of an experiment of ``data/experiments.toml`` with roles.
        scale: "page" for the runs behind the page, "gpu" for full strength.
        budget: share of the steps at full strength, up to 1; below a tenth, of one seed.
        minutes: that the missing runs may take here, by the time of one step of each model.
        folder: by default ``vitbook-runs`` on the Drive that Colab has mounted, else here.
        device: by default the GPU if there is one.

    Raises:
        UnknownNameError: no such experiment, or scale.
        TooLongError: it would take longer; says how long, and which budget fits.
        DatasetError, ConnectionError: the data cannot be had.
        ValueError: a budget or minutes that are no such number, an experiment without roles.

    Example:
        >>> from vitbook.training import at_scale
        >>> found = at_scale("rotations")  # doctest: +ELLIPSIS
        Models: digits, 1,320 steps, seeds 0 to 7, on ...
        >>> found.compare("rotated", "control").gap > 0
        True
    """
    if scale not in SCALES:
        raise UnknownNameError("scale", scale, SCALES)
    for key, number, most in (("budget", budget, 1), ("minutes", minutes, float("inf"))):
        if type(number) not in (int, float) or not 0 < number <= most:
            told = f"{key} {number!r}: expected a number above 0"
            raise ValueError(told + ", up to 1" * (most == 1))
    experiments = {each.name: each for each in runs.read_experiments()}
    wanted = name if scale == "page" else f"{name}_gpu"
    if wanted not in experiments:
        raise UnknownNameError("experiment", wanted, experiments)
    if not (roles := experiments[wanted].roles):
        raise ValueError(f"experiment {wanted} has no roles: name them in its runs")
    roles = {role: tuple(each.unprobed for each in some) for role, some in roles.items()}
    if scale == "gpu" and budget < 1:
        roles = {role: _cut(some, budget) for role, some in roles.items()}
    place = Path(folder) if folder else (DRIVE if DRIVE.is_dir() else Path()) / "vitbook-runs"
    place /= f"{runs.versions()['vitbook']}-{_code()}"
    found = AtScale(experiments[wanted], scale, roles, place, choose_device(device))
    if missing := found.missing:
        if scale == "page":
            raise ValueError(f"{wanted}: {missing[0].name} was not run; see `vitbook experiments`")
        _say_others(place)
        _make_all(found, missing, minutes, budget)
    print(textwrap.fill(f"Models: {found}", WIDE, subsequent_indent="  "))
    if scale == "gpu":
        print(f"Cost: {found.cost}")
    return found


def _code() -> str:
    """The commit, or a digest of the code where files differ from it or none is known."""
    if re.fullmatch(r"[0-9a-f]{40}", commit := runs.commit()):
        return commit[:12]
    whole = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        whole.update(path.read_bytes())
    return f"changed-{whole.hexdigest()[:12]}"


def _make_all(
    found: AtScale, missing: list[PlannedRun], minutes: float | int, budget: float | int
) -> None:
    of_model = {run.model: run for run in missing}  # timed once each
    rates = {name: _rate(run, found.device) for name, run in of_model.items()}
    left = sum(run.images / rates[run.model] for run in missing) / 60
    here = runs.device_name(found.device)
    if left > minutes:
        # Of a smaller budget no run is there: all of them are made anew.
        every = {run for some in found.planned.values() for run in some}
        rates |= {run.model: _rate(run, found.device) for run in every if run.model not in rates}
        whole = sum(run.images / rates[run.model] for run in every) / 60
        raise TooLongError(
            f"{len(missing)} runs of {found.experiment.name} take about {_told(left)} on {here}, "
            f"and {_told(minutes)} were asked for: choose a GPU, BUDGET = "
            f"{budget * minutes / whole * 0.8:.2g}, or minutes={max(1, math.ceil(left * 1.2))}"
        )
    print(
        f"{len(missing)} run{'s' * (len(missing) > 1)}, about {_told(left)} on {here}. Kept in "
        f"{found.folder}; what is cut off goes on when this cell is run again."
    )
    for number, wanted in enumerate(missing, 1):
        print(f"[{number}/{len(missing)}] {wanted.model}, seed {wanted.seed}; {_told(left)} left")
        begun = time.monotonic()
        found._make(wanted)
        # What is left is told by what the runs took, and not by what one step had promised.
        slower = (time.monotonic() - begun) / (wanted.images / rates[wanted.model])
        rest = missing[number:]
        left = slower * sum(each.images / rates[each.model] for each in rest) / 60


def _told(minutes: float | int) -> str:
    if minutes >= 120:
        return f"{minutes / 60:.1f} hours"
    return f"{minutes:.0f} minutes" if minutes >= 1.5 else "a minute"


@torch.enable_grad()
def _rate(run: PlannedRun, device: torch.device) -> float:
    """Images a second in a step of the model alone, the second of two."""
    size = run.recipe.image_size or default_image_size(run.model)
    images = run.recipe.batch_size if device.type == "cuda" else min(run.recipe.batch_size, TIMED)
    model = create_model(run.model, image_size=size).to(device).train()
    data = torch.rand(images, model.spec.channels, size, size, device=device)
    labels = torch.zeros(images, dtype=torch.long, device=device)
    for _ in range(2):
        synchronize(device)
        begun = time.perf_counter()
        with autocast(device, training_dtype(device)):
            answers = model(data)
            answers = answers if isinstance(answers, torch.Tensor) else answers[0]
            loss = F.cross_entropy(answers, labels)
        loss.backward()
        synchronize(device)
    return images / (time.perf_counter() - begun)


def _cut(some: tuple[PlannedRun, ...], budget: float | int) -> tuple[PlannedRun, ...]:
    """The same runs with fewer steps, and below a tenth one seed alone."""
    return tuple(_shorter(run, budget) for run in (some[:1] if budget < FEW else some))


def _shorter(run: PlannedRun, budget: float | int) -> PlannedRun:
    steps = max(1, round(run.steps * budget))
    epochs = min(max(1, round(run.recipe.epochs * budget)), steps)  # each is evaluated
    warmup = run.recipe.warmup_epochs * epochs / run.recipe.epochs
    recipe = replace(
        run.recipe,
        epochs=epochs,
        epoch_images=steps // epochs * run.recipe.batch_size,
        warmup_epochs=warmup,
    )
    return replace(run, recipe=recipe)


def _say_others(place: Path) -> None:
    """What other versions of the code have left beside is named, and not read."""
    others = [
        each.name for each in place.parent.glob("*") if each != place and any(each.glob("*.json"))
    ]
    if others:
        print(f"Not read: runs by other versions of vitbook in {place.parent}, {', '.join(others)}")
