"""A run from end to end: data, model, training, checkpoint, ledger."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path

import torch
from torch import nn

from vitbook import datasets, runs
from vitbook.datasets import Dataset
from vitbook.errors import UnknownNameError
from vitbook.extras import from_extra
from vitbook.measure import count_parameters, memory_so_far
from vitbook.models import create_model, default_image_size, initialize, list_models
from vitbook.runs.planned_run import PlannedRun
from vitbook.runs.recipe import Recipe
from vitbook.training.engine.checkpoints import Plant, save_checkpoint
from vitbook.training.engine.differences import differences
from vitbook.training.engine.loop import train
from vitbook.training.engine.processes import joined, processes
from vitbook.training.engine.tensorboard import tensorboard_writer
from vitbook.training.objectives.learner import Learner
from vitbook.training.objectives.questions import make_learner
from vitbook.training.objectives.teachers import (
    check_teacher_name,
    fresh_model,
    load_teacher,
    teacher_name,
)
from vitbook.training.transfer.start import check_weights, is_path, start_from, start_name


class RunInUseError(OSError):
    """Another process is writing the same run."""


class FinishedRunError(ValueError):
    """A run is there under this name, and would be replaced."""


def run(
    model_name: str,
    dataset_name: str | Path,
    recipe: Recipe,
    *,
    seed: int = 0,
    folder: str | Path,
    device: str | None = None,
    compile: bool | None = None,
    share: float | int = 1.0,
    share_seed: int = 0,
    start: str | Path = "",
    teacher: str | Path = "",
    experiment: str = "",
    checkpoint_dtype: torch.dtype | None = None,
    progress: bool = True,
    save_every_s: float | int = 60,
    probe: Callable[[nn.Module, Dataset], dict] | None = None,
    probe_epochs: tuple[int, ...] = (),
    tensorboard: str | Path | None = None,
    stop: Callable[[], bool] | None = None,
    plant: Plant | None = None,
) -> runs.Result:
    """Train a model of the catalogue; leave ``NAME.safetensors`` and ``NAME.json`` in ``folder``.

    The seed decides the first weights, the order of the images and their augmentation. A run
    that was killed goes on where it stopped when it is called again; until it ends it keeps
    ``NAME.unfinished`` in the folder. Under ``torchrun`` all processes share the run, and the
    first one writes.

    Args:
        dataset_name: as :func:`vitbook.datasets.load` takes it; the files of a run on pictures of
            one's own are called after these and a digest of them.
        share: of each class's training images, drawn by ``share_seed``.
        start: weights that the body starts from, as :func:`~.start.start_from` takes them; the
            head then starts at zero. Empty starts from fresh weights.
        teacher: that a recipe with ``distillation`` learns from, as
            :func:`~.teachers.load_teacher` takes it.
        experiment: of ``data/experiments.toml`` that the run answers; its files are then called
            after it and after a digest of all that decides the run.
        compile: as :func:`~.loop.train` takes it.
        probe: is given the model and the held-out data; what it returns goes to the ledger.
        probe_epochs: after which epochs; 0 is before training.
        tensorboard: folder for the curve as TensorBoard reads it.
        plant: is given the model and the fault of the recipe, and plants it, as
            ``vitbook.studies.pitfalls.plant`` does.
        stop: asked after every step; if it says so, the unfinished run is written and left.

    Raises:
        FinishedRunError: the folder has a finished run of this name.
        UnknownNameError: no such model, data set, or weights to start or to learn from; names the
            nearest.
        StartError: weights of another model, or for images of other channels.
        TeacherError: a teacher of other classes or for other images.
        ValueError: a recipe with distillation and no teacher, or the reverse.
        ModuleNotFoundError: TensorBoard is asked for and not installed.
        RunInUseError: another process is writing this run into this folder.
        RunStoppedError: ``stop`` said so; the same call goes on.
    """
    if recipe.fault and plant is None:
        raise ValueError(f"recipe {recipe.name} has the fault {recipe.fault!r}: give `plant`")
    dataset_name = datasets.name_of(dataset_name)
    usual_size = default_image_size(model_name)
    if start:
        check_weights(start)
    if teacher:
        check_teacher_name(teacher)
    planned = PlannedRun(
        model_name,
        dataset_name,
        recipe,
        seed,
        share,
        share_seed,
        probe_epochs,
        start_name(start),
        teacher_name(teacher) if teacher else "",
        experiment,
    )
    definition, name = "", runs.run_name(dataset_name, model_name, recipe.name, seed)
    if experiment:
        definition, name = planned.digest, planned.name
    unfinished = Path(folder) / f"{name}.unfinished"
    _check_free(unfinished.with_suffix(".json"), planned)
    with (
        joined(device) as own,
        _alone(unfinished.with_suffix(".lock")),
        tensorboard_writer(tensorboard, name) as draw,
    ):
        if processes().is_first:  # half a file that a killed run was writing
            for part in Path(folder).glob(f".{name}.*"):
                part.unlink()
        size = recipe.image_size or usual_size
        whole = datasets.load(dataset_name, "train", image_size=size)
        train_set = datasets.take_share(whole, share, share_seed)
        held_out = datasets.held_out_split(dataset_name)
        test_set = datasets.load(dataset_name, held_out, image_size=size)
        torch.manual_seed(seed)
        make = partial(start_from, start) if start else create_model
        model = make(
            model_name,
            image_size=size,
            num_classes=train_set.num_classes,
            channels=train_set.images.shape[1],
            pool=recipe.pool,
        )
        if recipe.initialization:
            initialize(model, recipe.initialization)
        if recipe.fault:
            plant(model, recipe.fault)
        guide = load_teacher(teacher, train_set, dataset_name, seed=seed) if teacher else None
        if probe is not None and planned.probe_epochs:
            probe(model.to(own), test_set)  # what it cannot look into is found before the training
        learner = make_learner(model, recipe, seed)
        outcome = train(
            learner,
            train_set,
            recipe,
            test=test_set,
            teacher=guide,
            seed=seed,
            device=own,
            compile=compile,
            progress=progress,
            state=unfinished,
            start=planned.start,
            save_every_s=save_every_s,
            probe=None if probe is None else lambda model: probe(model, test_set),
            probe_epochs=planned.probe_epochs,
            after_epoch=draw,
            stop=stop,
        )
        result = runs.Result(
            model=model_name,
            parameters=count_parameters(model),
            dataset=dataset_name,
            recipe=asdict(recipe),
            seed=seed,
            accuracy=outcome.accuracy,
            curve=[_in_six_digits(point) for point in outcome.curve],
            probes=list(outcome.probes),
            data_passes=outcome.data_passes,
            wall_time_s=_in_five_digits(outcome.wall_time_s),
            images_per_second=_in_five_digits(outcome.images_per_second),
            peak_memory_mb=round(memory_so_far(own) / 1e6),
            precision=outcome.precision,
            processes=outcome.processes,
            **runs.made_on(own) | {"device": outcome.device},
            provenance=train_set.provenance,
            share=share,
            share_seed=share_seed,
            start=planned.start,
            teacher=planned.teacher,
            experiment=experiment,
            definition=definition,
        )
        if processes().is_first:
            about = {k: v for k, v in asdict(result).items() if k not in ("curve", "probes")}
            save_checkpoint(
                Path(folder) / f"{name}.safetensors",
                model,
                class_names=() if recipe.objective else train_set.class_names,
                provenance=about,
                dtype=checkpoint_dtype,
                beside=learner.own_parts() if isinstance(learner, Learner) else None,
            )
            runs.record(result, folder)
            unfinished.unlink(missing_ok=True)
        return result


def check_run(planned: PlannedRun) -> None:
    """Refuse a planned run of a model or of weights that nobody knows by name.

    Raises:
        UnknownNameError: no such model; names the nearest.
        ValueError: weights by a path.
    """
    if planned.model not in list_models():
        raise UnknownNameError("model", planned.model, list_models())
    for key, weights in (("start", planned.start), ("teacher", planned.teacher)):
        if is_path(weights):
            raise ValueError(
                f"{key} {weights!r}: expected a name of `vitbook weights list` or of one of the "
                "book's own checkpoints, as a path does not say which weights the file holds"
            )
    if fresh_model(planned.teacher) is not None:
        check_teacher_name(planned.teacher)


def _in_six_digits(point: dict) -> dict:
    """A point of the curve whose noise is left out: the ledger travels in the wheel."""
    noisy = point.keys() & {"loss", "held_out_loss", "learning_rate"}
    return point | {key: float(f"{point[key]:.6g}") for key in noisy}


def _in_five_digits(measured: float) -> float:
    """By digits and not by decimals: a short run takes some time, too."""
    return float(f"{measured:.5g}")


def _check_free(row: Path, planned: PlannedRun) -> None:
    """A run that took hours is not replaced in silence, by others' settings least of all."""
    if not row.is_file():
        return
    there = PlannedRun.of(runs.read_row(row))
    if there is None:
        told = "whose settings this vitbook cannot read"
    else:
        changed = [
            f"{field} {ours!r}, where that has {theirs!r}"
            for field, ours, theirs in differences(planned.settings, there.settings)
        ]
        told = f"this one has {'; '.join(changed[:3])}" if changed else "with the same settings"
    raise FinishedRunError(
        f"{row} is of a finished run, {told}: choose another folder (--out), or remove it"
    )


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold a lock that ends with the process, however it ends."""
    if not processes().is_first:
        yield
        return
    with from_extra("train"):
        from filelock import FileLock, Timeout
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(path, timeout=0):
            yield
    except Timeout as error:
        raise RunInUseError(
            f"another process is writing {path.stem} into {path.parent}: wait for it, or choose "
            "another folder or seed"
        ) from error
