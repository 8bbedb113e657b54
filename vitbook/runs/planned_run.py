"""A run before it is made: all that decides it, and the command that makes it."""

import json
import re
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from hashlib import blake2b

from vitbook import datasets
from vitbook.datasets.catalog import IMAGE_SETS
from vitbook.datasets.cluttered import CLUTTERED
from vitbook.runs.recipe import DEFAULTS, Recipe
from vitbook.runs.recipes import get_recipe
from vitbook.runs.rows import Result, experiment_run_name


def check_name(experiment: str) -> None:
    """
    Raises:
        ValueError: files cannot be called after it.
    """
    if not re.fullmatch(r"\w{0,40}", experiment, re.ASCII):
        raise ValueError(
            f"experiment {experiment[:60]!r}: expected at most 40 letters, digits and _, as files "
            "are called after it"
        )


@dataclass(frozen=True, eq=False)
class PlannedRun:
    """A run by its definition; two with the same digest are the same run.

    Attributes:
        model: a name of the catalogue.
        dataset: a name of ``datasets.list_datasets()``.
        recipe: with all its changes.
        share: of each class's training images, drawn by ``share_seed``.
        probe_epochs: after which the model is looked into; 0 is before training.
        start: name of the weights that it starts from, see
            :func:`vitbook.training.transfer.start.start_name`; empty starts from fresh ones.
        teacher: name of the model that the student also learns from, see
            :func:`vitbook.training.objectives.teachers.teacher_name`; empty if none.
        experiment: that it answers; like the next, no part of the definition.
        ships: its checkpoint is one of the book's own.

    Raises:
        ValueError: a number or a name that no run can have.
    """

    model: str
    dataset: str
    recipe: Recipe
    seed: int = 0
    share: float | int = 1.0
    share_seed: int = 0
    probe_epochs: tuple[int, ...] = ()
    start: str = ""
    teacher: str = ""
    experiment: str = ""
    ships: bool = False

    def __post_init__(self):
        for key in ("seed", "share_seed"):
            if type(number := getattr(self, key)) is not int or not 0 <= number < 2**63:
                raise ValueError(f"{key} {number!r}: expected a whole number from 0 to 2^63 - 1")
        if type(self.share) not in (int, float) or not 0 < self.share <= 1:
            raise ValueError(f"share {self.share!r}: expected more than 0, up to 1")
        for epoch in self.probe_epochs:
            if type(epoch) is not int or not 0 <= epoch <= self.recipe.epochs:
                raise ValueError(f"probe after epoch {epoch!r}: the run has {self.recipe.epochs}")
        if self.start and self.recipe.initialization:
            raise ValueError(
                f"initialization {self.recipe.initialization!r} and weights to start from, "
                f"{self.start}: expected one of them"
            )
        self.recipe.check_taught(bool(self.teacher))
        check_name(self.experiment)
        # What says the same is the same run.
        object.__setattr__(self, "probe_epochs", tuple(sorted(set(self.probe_epochs))))
        object.__setattr__(self, "share_seed", self.share_seed if self.share < 1 else 0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlannedRun) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @classmethod
    def of(cls, row: Result) -> "PlannedRun | None":
        """The definition that a row of the ledger answers; None if recipes have changed since."""
        try:
            probes = tuple(probe["epoch"] for probe in row.probes)
            recipe = Recipe(**row.recipe)
            return cls(
                row.model,
                row.dataset,
                recipe,
                row.seed,
                row.share,
                row.share_seed,
                probes,
                row.start,
                row.teacher,
            )
        except (AttributeError, KeyError, TypeError, ValueError):
            return None

    @cached_property
    def digest(self) -> str:
        """Eight letters, the same for the same run.

        Numbers of the recipe that are as :class:`Recipe` has them by default do not count, so
        that a number which recipes gain later leaves the digests of older runs as they are.
        """
        numbers = {
            name: float(value) if type(value) is int else value
            for name, value in vars(self.recipe).items()
            if name != "name" and (name not in DEFAULTS or value != DEFAULTS[name])
        }
        what = {
            "model": self.model,
            "dataset": self.dataset,
            "recipe": numbers,
            "seed": self.seed,
            "share": [float(self.share), self.share_seed] if self.share != 1 else [],
            "probes": self.probe_epochs,
        }
        what |= {"start": self.start} if self.start else {}
        what |= {"teacher": self.teacher} if self.teacher else {}
        return blake2b(json.dumps(what, sort_keys=True).encode(), digest_size=4).hexdigest()

    @property
    def unprobed(self) -> "PlannedRun":
        """The same run, whether or not somebody looks into the model while it learns."""
        return replace(self, probe_epochs=()) if self.probe_epochs else self

    def shorter(self, share: float | int) -> "PlannedRun":
        """The same run with a share of its steps, one at least.

        Warm-up and epochs are shortened likewise, and what the mean of the weights remembers.
        """
        steps, recipe = max(1, round(self.steps * share)), self.recipe
        epochs = min(max(1, round(recipe.epochs * share)), steps)  # each is evaluated
        changed = replace(
            recipe,
            epochs=epochs,
            epoch_images=steps // epochs * recipe.batch_size,
            warmup_epochs=recipe.warmup_epochs * epochs / recipe.epochs,
            ema=recipe.ema ** (self.steps / steps),
        )
        return replace(self, recipe=changed)

    @property
    def settings(self) -> dict:
        """All that decides it, by name."""
        return {k: v for k, v in asdict(self).items() if k not in ("experiment", "ships")}

    @property
    def name(self) -> str:
        """Of its files."""
        return experiment_run_name(self.experiment, self.model, self.seed, self.digest)

    @property
    def command(self) -> tuple[str, ...]:
        """What makes it, behind ``vitbook``."""
        base, now = asdict(get_recipe(self.recipe.name)), asdict(self.recipe)
        changes = [f"{key}={json.dumps(now[key])}" for key in now if now[key] != base[key]]
        words = ["train", self.model, self.dataset, "--recipe", self.recipe.name]
        words += [word for change in changes for word in ("--set", change)]
        words += ["--seed", str(self.seed)]
        if self.share != 1:
            words += ["--share", str(self.share), "--share-seed", str(self.share_seed)]
        if self.start:
            words += ["--from", self.start]
        if self.teacher:
            words += ["--teacher", self.teacher]
        if self.probe_epochs:
            words += ["--probe-at", ",".join(map(str, self.probe_epochs))]
        return (*words, "--half", "--experiment", self.experiment)

    @property
    def images(self) -> int:
        """Training images shown, an image counted anew each time."""
        return self.recipe.epochs * self.images_an_epoch

    @property
    def steps(self) -> int:
        """Steps of the optimizer."""
        return self.images // self.recipe.batch_size

    @property
    def images_an_epoch(self) -> int:
        recipe = self.recipe
        whole = recipe.epoch_images or _training_images(self.dataset) * self.share * recipe.repeats
        return int(whole) // recipe.batch_size * recipe.batch_size


@cache
def _training_images(dataset: str) -> int:
    return num_images(dataset, "train")


def num_images(dataset: str, split: str) -> int:
    if dataset in CLUTTERED:
        clutter = CLUTTERED[dataset]
        return clutter.copies[split] * num_images(clutter.of, split)
    if dataset in IMAGE_SETS:
        return IMAGE_SETS[dataset].splits[split]
    return len(datasets.load(dataset, split))  # inside a package, and small
