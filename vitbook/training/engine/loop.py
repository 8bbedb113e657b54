"""The training loop."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from vitbook.datasets import Dataset
from vitbook.devices import autocast, choose_device, training_dtype
from vitbook.model_utilities import weights_digest
from vitbook.models import set_dropout, set_stochastic_depth
from vitbook.runs.recipe import Recipe
from vitbook.training.engine.batches import Batches
from vitbook.training.engine.evaluation import answers, check_outputs, check_same_classes
from vitbook.training.engine.fine_tuning import learning_parts, training_mode
from vitbook.training.engine.memory import (
    BatchTooLargeError,
    forget_activations,
    is_out_of_memory,
    say_what_fits,
)
from vitbook.training.engine.optimization import learning_rate, make_optimizer, moving_average
from vitbook.training.engine.processes import processes
from vitbook.training.engine.recorder import Recorder
from vitbook.training.engine.sharpness_aware import uphill
from vitbook.training.objectives.kept_answers import KeptAnswers
from vitbook.training.objectives.questions import body_of, make_learner, make_question
from vitbook.training.objectives.teachers import check_teacher

COMPILED_STEPS = 3_000  # in fewer a GPU does not win back the half minute that compiling takes


@dataclass(frozen=True)
class TrainingRun:
    """What a run left behind.

    Attributes:
        curve: one row an epoch: ``epoch``, mean training ``loss``, ``learning_rate`` at its end
            and, if there was held-out data, ``accuracy`` on it (0 to 1); with an ``objective``
            in the recipe it is of that, beside ``held_out_loss``.
        accuracy: of the final weights on the held-out data; None if there was none.
        probes: what ``probe`` returned, each with its ``epoch``; epoch 0 is before training.
        data_passes: times that an image was shown, on average.
        training_s: seconds of training steps alone.
        wall_time_s: seconds in all, evaluation and probes included; of all parts, if the run was
            interrupted.
        images_per_second: images trained on by all processes, per second of training, in which a
            teacher answers too.
        precision: of the forward pass.
        device: its name; of all, if parts of the run were made on different ones.
        processes: that shared each batch.
    """

    recipe: Recipe
    seed: int
    curve: tuple[dict, ...]
    accuracy: float | None
    probes: tuple[dict, ...]
    data_passes: float
    training_s: float
    wall_time_s: float
    images_per_second: float
    precision: str
    device: str
    processes: int


def fit(model, mean, optimizer, batches, recipe, steps, precision, after_step, ask):
    """Training, whole: every other function prepares it or reports on it."""
    training_mode(model)
    for step in steps:
        epoch = step / batches.steps_an_epoch
        for group in optimizer.param_groups:  # a part may begin where the warm-up ends
            group["lr"] = group["rate"] * learning_rate(max(epoch, group["from_epoch"]), recipe)
        images, targets = batches[step]  # shuffled, each image changed in its own way
        with precision:
            loss = ask(model, images, targets, step)  # cross-entropy, if it learns labels alone
        optimizer.zero_grad()
        loss.backward()
        if recipe.sharpness_radius:  # the gradient uphill of here takes its place
            with uphill(model, recipe.sharpness_radius):
                optimizer.zero_grad()
                with precision:
                    steeper = ask(model, images, targets, step)
                steeper.backward()
        if recipe.gradient_clip:
            nn.utils.clip_grad_norm_(model.parameters(), recipe.gradient_clip)
        optimizer.step()
        if mean is not None:
            mean.update_parameters(model)
        after_step(step + 1, loss.detach())


def train(
    model: nn.Module,
    dataset: Dataset,
    recipe: Recipe,
    *,
    test: Dataset | None = None,
    teacher: nn.Module | None = None,
    seed: int = 0,
    device: str | torch.device | None = None,
    compile: bool | None = None,
    progress: bool = True,
    state: str | Path | None = None,
    start: str = "",
    save_every_s: float | int = 60,
    probe: Callable[[nn.Module], dict] | None = None,
    probe_epochs: tuple[int, ...] = (),
    after_epoch: Callable[[dict], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> TrainingRun:
    """Train ``model`` in place; with an ``ema`` in the recipe it ends as the mean of its weights.

    With an ``objective`` in the recipe its body learns without labels, and its head not at all.
    Who needs what predicts as well gives a :class:`.Learner` in the place of ``model``.
    Of a fine-tuning recipe only the parts learn that it names, see :func:`.learning_parts`. The
    forward pass runs in bfloat16 if the GPU computes in it. Processes that
    :func:`~.processes.joined` has joined share every batch.

    Args:
        dataset: to learn from.
        test: to measure on after every epoch; it decides nothing.
        teacher: whose answers a recipe with ``distillation`` learns as well: any model from images
            to logits, or :class:`.KeptAnswers`; see :class:`~.distillation.Teacher`. It is moved
            to the device, and does not learn.
        seed: of the order of the images and of their augmentation.
        device: by default the GPU if there is one.
        compile: run the model through ``torch.compile``; by default where it pays, on a GPU in a
            run of labels with 3,000 steps or more.
        progress: show a bar.
        state: file of the unfinished run. If it exists, the run goes on from it: on the CPU to
            the same bits as a run that was never interrupted.
        start: name of the weights that ``model`` comes with: ``state`` is of one start alone.
        save_every_s: seconds between two writings of ``state``.
        probe: looks at the model, and returns what JSON takes.
        probe_epochs: after which epochs; 0 is before training.
        after_epoch: is given each row of the curve.
        stop: asked after every step; if it says so, ``state`` is written and the run left.

    Raises:
        TrainingDivergedError: the loss is not a number any more, or the last weights are not; says
            when, and what to try.
        BatchTooLargeError: out of memory; says which batch would fit.
        TeacherError: a teacher of other classes or for other images.
        ValueError: a recipe with distillation and no teacher, or the reverse.
        UnfinishedRunError: ``state`` is damaged or of another run.
        RunStoppedError: ``stop`` said so; the same call goes on.
        ValueError: ``test`` of other classes; the model has fewer outputs than there are classes,
            the batch does not divide over the processes, or an objective that is not for this
            model.

    Example:
        >>> import vitbook
        >>> from vitbook.datasets import load, take_share
        >>> from vitbook.runs import get_recipe
        >>> from vitbook.training import train
        >>> few, test = take_share(load("digits", "train"), 0.1), load("digits", "test")
        >>> model = vitbook.create_model("vit_micro_patch2_8")
        >>> recipe = get_recipe("digits", epochs=2, warmup_epochs=1)
        >>> run = train(model, few, recipe, test=test, device="cpu", progress=False)
        >>> [row["epoch"] for row in run.curve], sorted(run.curve[0])
        ([1, 2], ['accuracy', 'epoch', 'learning_rate', 'loss'])
    """
    device = choose_device(device)
    here, body = processes(), body_of(model)
    recipe.check_taught(teacher is not None)
    if test is not None:
        check_same_classes(test, dataset)
    model.to(device)
    if not recipe.objective:
        check_outputs(logits := answers(body, dataset.images[:1]), dataset)
    if teacher is not None:  # which a recipe with an objective has not
        check_teacher(teacher, model, dataset, recipe, logits.shape[1], device)
    set_dropout(body, recipe.dropout)
    set_stochastic_depth(body, recipe.drop_path, recipe.drop_path_grows)
    with learning_parts(body, recipe, seed):
        learner = make_learner(model, recipe, seed).to(device)
        learner.zero_grad()  # of what is frozen too, which no step clears and the clip would count
        batches = Batches(dataset, recipe, seed, device, here.rank, here.count)
        last = recipe.epochs * batches.steps_an_epoch
        optimizer, mean = make_optimizer(learner, recipe), moving_average(learner, recipe, last)
        recorder = Recorder(
            learner,
            mean,
            optimizer,
            batches,
            identity={
                "model": asdict(body.spec) if hasattr(body, "spec") else type(body).__name__,
                "data": dataset.provenance,
                "recipe": asdict(recipe),
                "seed": seed,
                "probe_epochs": list(probe_epochs),
            }
            | ({"start": start} if start else {})
            | ({} if teacher is None else {"teacher": weights_digest(teacher)[:16]}),
            test=test,
            state=state,
            save_every_s=save_every_s,
            probe=probe,
            probe_epochs=probe_epochs,
            after_epoch=after_epoch,
            stop=stop,
            show=progress,
        )
        dtype = training_dtype(device)
        first = recorder.progress.step
        if compile is None:
            long = not recipe.objective and last - first >= COMPILED_STEPS
            compile = long and device.type == "cuda"
        # To launch a small model's kernels takes a GPU longer than their work: they are replayed.
        replayed = device.type == "cuda" and here.count == 1
        mode = "reduce-overhead" if replayed else "default"
        runner = torch.compile(learner, mode=mode) if compile else learner
        if here.count > 1:
            runner = DistributedDataParallel(runner)

        try:
            gpus = [] if device.type == "cpu" else [device]
            with recorder, torch.random.fork_rng(gpus, device_type=device.type):
                precision = autocast(device, dtype)
                ask, steps = make_question(learner, teacher, batches, seed), range(first, last)
                fit(runner, mean, optimizer, batches, recipe, steps, precision, recorder, ask)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            if recorder.at_work:
                raise MemoryError(
                    f"out of memory between two steps, in evaluation, a probe or writing: {error}"
                ) from error
            forget_activations(error)
            image = torch.zeros(dataset.images.shape[1:], device=device)
            own = recipe.batch_size // here.count
            guide = None if isinstance(teacher, KeptAnswers) else teacher
            raise BatchTooLargeError(
                say_what_fits(learner, image, own, here.count, guide)
            ) from error
        if mean is not None:
            learner.load_state_dict(mean.module.state_dict())
    reached = recorder.progress
    shown = last * recipe.batch_size
    return TrainingRun(
        recipe=recipe,
        seed=seed,
        curve=tuple(reached.curve),
        accuracy=reached.curve[-1].get("accuracy"),
        probes=tuple(reached.probes),
        data_passes=shown / len(dataset),
        training_s=reached.training_s,
        wall_time_s=reached.wall_time_s,
        images_per_second=shown / reached.training_s,
        precision=str(dtype).removeprefix("torch."),
        device=", then ".join(reached.devices),
        processes=here.count,
    )
