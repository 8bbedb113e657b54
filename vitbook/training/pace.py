"""How long runs would take here: the time of a step of each, whatever it asks of its model."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import nn

from vitbook import datasets
from vitbook.devices import autocast, synchronize, training_dtype
from vitbook.models import create_model, default_image_size
from vitbook.runs import PlannedRun
from vitbook.training.engine.memory import trial_step
from vitbook.training.objectives.kept_answers import KeptAnswers
from vitbook.training.objectives.questions import make_learner
from vitbook.training.objectives.teachers import load_teacher

TIMED = 32  # images of the step that is timed on a CPU


class TooLongError(RuntimeError):
    """What was asked for would take longer than it may."""


@dataclass(frozen=True)
class Pace:
    """Of runs on one device. Runs that ask the same of the same model are timed once.

    What stands beside the step is left out: augmentation, the optimizer, evaluation.
    """

    device: torch.device
    _timed: dict[tuple, float] = field(default_factory=dict)

    def minutes(self, some: Iterable[PlannedRun]) -> float:
        """What runs take, one after the other."""
        return sum(run.images * self._seconds(run) for run in some) / 60

    def _seconds(self, run: PlannedRun) -> float:
        """Of one image."""
        kind = (run.model, run.teacher, *(getattr(run.recipe, name) for name in STEP))
        if kind not in self._timed:
            self._timed[kind] = _seconds_an_image(run, self.device)
        return self._timed[kind]


# Numbers of a recipe by which a step takes longer or shorter.
STEP = ("objective", "sharpness_radius", "batch_size", "image_size")


@torch.enable_grad()
def _seconds_an_image(run: PlannedRun, device: torch.device) -> float:
    """In a step without the optimizer, the second of two."""
    recipe = run.recipe
    size = recipe.image_size or default_image_size(run.model)
    count = recipe.batch_size if device.type == "cuda" else min(recipe.batch_size, TIMED)
    model = create_model(run.model, image_size=size)
    images = torch.rand(count, model.spec.channels, size, size, device=device)
    learner, teacher = make_learner(model, recipe, run.seed).to(device).train(), _teacher(run, size)
    for _ in range(2):
        synchronize(device)
        begun = time.perf_counter()
        for _ in range(2 if recipe.sharpness_radius else 1):  # here, and uphill of here
            with autocast(device, training_dtype(device)):
                trial_step(learner, images, teacher and teacher.to(device))
        synchronize(device)
    return (time.perf_counter() - begun) / count


def _teacher(run: PlannedRun, size: int) -> nn.Module | None:
    """None too where its answers are kept, and cost nothing."""
    if not run.teacher:
        return None
    held_out = datasets.load(run.dataset, datasets.held_out_split(run.dataset), image_size=size)
    teacher = load_teacher(run.teacher, held_out, run.dataset)
    return None if isinstance(teacher, KeptAnswers) else teacher


def told(minutes: float | int) -> str:
    """In words: "a minute", "12 minutes", "2.5 hours"."""
    if minutes >= 120:
        return f"{minutes / 60:.1f} hours"
    return f"{minutes:.0f} minutes" if minutes >= 1.5 else "a minute"
