"""What a run learns to answer: the labels, or without them something that images tell."""

from collections.abc import Callable
from functools import cache
from importlib import import_module

import torch
from torch import Tensor, nn

from vitbook.colors import recoloring
from vitbook.datasets import Dataset
from vitbook.files import modules_saying
from vitbook.runs.recipe import Recipe
from vitbook.training.engine.batch_random import seed_of
from vitbook.training.engine.batches import Batches
from vitbook.training.engine.evaluation import evaluate
from vitbook.training.engine.loss import cross_entropy
from vitbook.training.engine.processes import processes
from vitbook.training.objectives.distillation import Teacher, distillation_loss
from vitbook.training.objectives.learner import Learner

Question = Callable[[nn.Module, Tensor, Tensor, int], Tensor]


@cache
def learners() -> dict[str, type[Learner]]:
    """What learns each objective. Nothing takes from a study, so those that have one are found."""
    if names := modules_saying("vitbook.studies", "\nLEARNERS"):
        studies = [import_module(name).LEARNERS for name in names]
        return {objective: kind for some in studies for objective, kind in some.items()}
    raise LookupError("no study of vitbook.studies learns without labels: leave the objective out")


def make_learner(model: nn.Module, recipe: Recipe, seed: int) -> nn.Module:
    """What is trained: the model itself, or one of the :func:`learners` around it.

    The head of a model that learns without labels does not learn.

    Raises:
        ValueError: a model that the objective is not for, or a learner of another objective.
    """
    wrapped = isinstance(model, Learner)
    if not recipe.objective and not wrapped:
        return model
    kind = learners()[recipe.objective] if recipe.objective else None
    if kind is None or (wrapped and not isinstance(model, kind)):
        learns = f"objective {recipe.objective!r}" if recipe.objective else "labels"
        raise ValueError(
            f"a {type(model).__name__} and recipe {recipe.name}, which learns {learns}: set the "
            "objective to that of the learner, or give the model inside"
        )
    if kind.one_process and processes().count > 1:
        raise ValueError(
            f"objective {recipe.objective!r} in {processes().count} processes: each would see "
            "the views of its own images alone; use one process"
        )
    if not wrapped:
        with torch.random.fork_rng([]):
            torch.manual_seed(seed_of(seed, "predictor"))
            model = kind(model)
    else:  # a recipe may have changed the body's layers since
        model.begin_again()
    body_of(model).head.requires_grad_(False)
    return model


def body_of(learner: nn.Module) -> nn.Module:
    """The model from images to logits inside a learner."""
    return learner.model if isinstance(learner, Learner) else learner


def make_question(
    learner: nn.Module, teacher: nn.Module | None, batches: Batches, seed: int
) -> Question:
    """What a step asks: from the model, its images, their targets and the step to the loss.

    Chance inside the model is a function of the seed and the step: asked again, it is the same.
    """
    question = _question(learner, teacher, batches, seed)

    def ask(model: nn.Module, images: Tensor, targets: Tensor, step: int) -> Tensor:
        torch.manual_seed(seed_of(seed, step, "model", batches.rank))
        return question(model, images, targets, step)

    return ask


def _question(
    learner: nn.Module, teacher: nn.Module | None, batches: Batches, seed: int
) -> Question:
    recipe = batches.recipe
    if isinstance(learner, Learner):
        return lambda model, images, _, step: model(images, *learner.inputs(batches, step)).loss
    own = recoloring(learner)
    if teacher is None:
        return lambda model, images, targets, _: cross_entropy(
            model(own(images)), targets, recipe.label_smoothing
        )
    taught = Teacher(teacher, batches, seed)
    return lambda model, images, targets, step: distillation_loss(
        model(own(images)), targets, taught(images, step), recipe
    )


def score(learner: nn.Module, dataset: Dataset) -> dict[str, float]:
    """What a row of the curve says of held-out images: ``accuracy``, and what a learner adds."""
    if isinstance(learner, Learner):
        return learner.score(dataset)
    return {"accuracy": evaluate(learner, dataset)}
