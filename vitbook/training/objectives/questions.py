"""What a run learns to answer: the labels, or without them something that images tell."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from vitbook.colors import recoloring
from vitbook.datasets import Dataset
from vitbook.runs.recipe import Recipe
from vitbook.training.engine.batch_random import seed_of
from vitbook.training.engine.batches import Batches
from vitbook.training.engine.evaluation import evaluate
from vitbook.training.engine.loss import cross_entropy
from vitbook.training.engine.processes import processes
from vitbook.training.objectives.distillation import Teacher, distillation_loss
from vitbook.training.objectives.learner import Learner
from vitbook.training.objectives.masked_autoencoder import MaskedAutoencoder
from vitbook.training.objectives.masked_patches import MaskedPatches
from vitbook.training.objectives.next_pixels import NextPixels
from vitbook.training.objectives.two_views import BYOL, SimCLR

LEARNERS: dict[str, type[Learner]] = {
    "masked_patches": MaskedPatches,
    "simclr": SimCLR,
    "byol": BYOL,
    "next_pixels": NextPixels,
    "mae": MaskedAutoencoder,
}
Question = Callable[[nn.Module, Tensor, Tensor, int], Tensor]


def make_learner(model: nn.Module, recipe: Recipe, seed: int) -> nn.Module:
    """What is trained: the model itself, or one of :data:`LEARNERS` around it.

    The head of a model that learns without labels does not learn.

    Raises:
        ValueError: a model that the objective is not for, or a learner of another objective.
    """
    wrapped = isinstance(model, Learner)
    if not recipe.objective and not wrapped:
        return model
    if not recipe.objective or (wrapped and not isinstance(model, LEARNERS[recipe.objective])):
        learns = f"objective {recipe.objective!r}" if recipe.objective else "labels"
        raise ValueError(
            f"a {type(model).__name__} and recipe {recipe.name}, which learns {learns}: set the "
            "objective to that of the learner, or give the model inside"
        )
    if LEARNERS[recipe.objective].one_process and processes().count > 1:
        raise ValueError(
            f"objective {recipe.objective!r} in {processes().count} processes: each would see "
            "the views of its own images alone; use one process"
        )
    if not wrapped:
        with torch.random.fork_rng([]):
            torch.manual_seed(seed_of(seed, "predictor"))
            model = LEARNERS[recipe.objective](model)
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
