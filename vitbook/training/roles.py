"""What a chapter asks of its runs by their roles, made elsewhere or here."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn

from vitbook import datasets, runs
from vitbook.datasets import Dataset
from vitbook.errors import UnknownNameError
from vitbook.models import default_image_size
from vitbook.runs import Comparison, Experiment, OneRun, PlannedRun, Result, Spread
from vitbook.runs.planned_run import num_images
from vitbook.training.faults import load_checkpoint, plant
from vitbook.training.one_run import run
from vitbook.training.transfer.start import is_checkpoint


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
        return runs.answers(rows)

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
        self.make(wanted)
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
    def make(self, wanted: PlannedRun) -> None:
        """Train it here, into ``folder``; what was cut off goes on."""
        self._found[wanted] = run(
            wanted.model, wanted.dataset, wanted.recipe, seed=wanted.seed, share=wanted.share,
            share_seed=wanted.share_seed, start=wanted.start, teacher=wanted.teacher,
            experiment=self.experiment.name, folder=self.folder, device=str(self.device),
            checkpoint_dtype=torch.float16, plant=plant,
        )  # fmt: skip
