"""What happens around the steps of a run: the curve, the probes, the file to go on from."""

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

from vitbook.datasets import Dataset
from vitbook.devices import float64_device
from vitbook.extras import from_extra
from vitbook.runs import device_name
from vitbook.training.engine.batches import Batches
from vitbook.training.engine.evaluation import NotFiniteError
from vitbook.training.engine.muon import AnyOptimizer
from vitbook.training.engine.optimization import learning_rate
from vitbook.training.engine.processes import processes
from vitbook.training.engine.state import load_state, save_state
from vitbook.training.objectives.questions import body_of, score


class TrainingDivergedError(ArithmeticError):
    """The loss is no number any more, or the weights are none in the end."""


class RunStoppedError(RuntimeError):
    """The run was asked to stop before its end; it can go on."""


@dataclass
class Progress:
    """What a run has reached: all of it that is not a tensor."""

    step: int = 0
    loss: float = 0.0  # the sum over the steps of this epoch
    curve: list[dict] = field(default_factory=list)
    probes: list[dict] = field(default_factory=list)
    training_s: float = 0.0
    wall_time_s: float = 0.0
    devices: list[str] = field(default_factory=list)  # one after the other


class Recorder:
    """Called after every step; keeps the progress of a run, in memory and on disk."""

    def __init__(
        self,
        model: nn.Module,
        mean: nn.Module | None,
        optimizer: AnyOptimizer,
        batches: Batches,
        *,
        identity: dict,
        test: Dataset | None,
        state: str | Path | None,
        save_every_s: float | int,
        probe: Callable[[nn.Module], dict] | None,
        probe_epochs: tuple[int, ...],
        after_epoch: Callable[[dict], None] | None,
        stop: Callable[[], bool] | None,
        show: bool,
    ):
        self.parts = (model, mean, optimizer)
        self.kept = model if mean is None else mean.module
        self.batches, self.recipe, self.here = batches, batches.recipe, processes()
        self.identity, self.test, self.state = identity, test, state
        self.save_every_s, self.probe, self.probe_epochs = save_every_s, probe, probe_epochs
        self.after_epoch, self.stop = after_epoch, stop
        begun = None if state is None else load_state(state, *self.parts, identity)
        self.progress = Progress(**begun) if begun else Progress()
        device = device_name(batches.images.device)
        if self.progress.devices[-1:] != [device]:
            self.progress.devices.append(device)
        where = batches.images.device
        dtype = torch.float64 if float64_device(where) == where else torch.float32
        self.loss = torch.tensor(self.progress.loss, dtype=dtype, device=where)
        with from_extra("train"):
            from tqdm.auto import tqdm
        self.bar = tqdm(
            total=self.recipe.epochs * batches.steps_an_epoch,
            initial=self.progress.step,
            desc=f"training, recipe {self.recipe.name}",
            unit="step",
            disable=not (show and self.here.is_first),
        )
        self.at_work = False  # whether an error came between two steps
        self.clock = self.saved = time.perf_counter()
        if self.progress.step == 0:
            self._look(0)

    def __call__(self, step: int, loss: Tensor) -> None:
        """After a step: its number, counted from 1, and its loss."""
        self.at_work = True
        self._after(step, loss)
        self.at_work = False

    def _after(self, step: int, loss: Tensor) -> None:
        self.loss += self.here.sum(loss) / self.here.count
        self.progress.step = step
        self.bar.update()
        epoch, inside = divmod(step, self.batches.steps_an_epoch)
        stopped = self.stop is not None and self.stop()
        due = self.state is not None and time.perf_counter() - self.saved >= self.save_every_s
        if inside and not due and not stopped:
            return
        self._check(epoch + bool(inside))
        self._tick(training=True)
        if not inside:
            self._end_epoch(epoch)
        if self.state is not None:
            self._save()
        if stopped and step < self.bar.total:
            raise RunStoppedError(
                f"stopped after step {step} of {self.bar.total}: the same call goes on from there"
            )

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, *error) -> None:
        self.bar.close()

    def _end_epoch(self, epoch: int) -> None:
        row = {
            "epoch": epoch,
            "loss": self.progress.loss / self.batches.steps_an_epoch,
            "learning_rate": learning_rate(epoch, self.recipe),
        }
        if self.test is not None:
            try:
                row |= score(self.kept, self.test)
            except NotFiniteError as error:  # of weights that no loss has shown yet
                raise self._diverged("answers became NaN or infinite", epoch) from error
        self.progress.curve.append(row)
        self.loss.zero_()
        self._look(epoch)
        self._tick(training=False)
        shown = {key: f"{row[key]:.3f}" for key in ("loss", "accuracy") if key in row}
        self.bar.set_postfix(shown | {"epoch": epoch})
        if self.after_epoch is not None and self.here.is_first:
            self.after_epoch(row)

    def _look(self, epoch: int) -> None:
        if self.probe is not None and epoch in self.probe_epochs and self.here.is_first:
            self.progress.probes.append({"epoch": epoch} | self.probe(body_of(self.kept)))

    def _check(self, epoch: int) -> None:
        self.progress.loss = self.loss.item()  # a GPU has finished its steps when this is known
        wrong = ""
        if not math.isfinite(self.progress.loss):
            wrong = f"loss became {self.progress.loss}"
        elif self.progress.step == self.bar.total and not _finite(self.kept):
            wrong = "weights became NaN or infinite"  # which no later loss would show
        if wrong:
            raise self._diverged(wrong, epoch)

    def _diverged(self, wrong: str, epoch: int) -> TrainingDivergedError:
        radius = self.recipe.sharpness_radius
        shorter = f", take a smaller sharpness_radius (now {radius:g})" if radius else ""
        return TrainingDivergedError(
            f"the {wrong} in epoch {epoch} of {self.recipe.epochs}: "
            f"lower the learning rate (now {self.recipe.learning_rate:g}), warm up longer "
            f"(now {self.recipe.warmup_epochs:g} epochs){shorter}, and check the images for NaN"
        )

    def _tick(self, training: bool) -> None:
        now = time.perf_counter()
        self.progress.wall_time_s += now - self.clock
        self.progress.training_s += (now - self.clock) * training
        self.clock = now

    def _save(self) -> None:
        self.progress.loss = self.loss.item()
        if self.here.is_first:
            save_state(self.state, *self.parts, asdict(self.progress), self.identity)
        self._tick(training=False)
        self.saved = time.perf_counter()


def _finite(model: nn.Module) -> bool:
    return all(bool(weight.isfinite().all()) for weight in model.parameters())
