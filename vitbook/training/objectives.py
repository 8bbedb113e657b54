"""What a run learns to answer: the labels, or without them something that images tell."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from vitbook.datasets import Dataset, normalize
from vitbook.modes import evaluating
from vitbook.training.batch_random import seed_of
from vitbook.training.batches import Batches
from vitbook.training.distillation import Teacher, distillation_loss
from vitbook.training.evaluation import evaluate
from vitbook.training.loss import cross_entropy
from vitbook.training.masked_autoencoder import MaskedAutoencoder, score_reconstruction
from vitbook.training.masked_patches import ChosenPatches, MaskedPatches, choose_masked
from vitbook.training.neighbours import nearest_other
from vitbook.training.next_pixels import NextPixels, evaluate_pixels
from vitbook.training.processes import processes
from vitbook.training.recipe import TWO_VIEWS, Recipe
from vitbook.training.two_views import BYOL, SimCLR, TwoViews, mean_token, spread

LEARNERS = {
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
    wrapped = isinstance(model, tuple(LEARNERS.values()))
    if not recipe.objective and not wrapped:
        return model
    if not recipe.objective or (wrapped and not isinstance(model, LEARNERS[recipe.objective])):
        learns = f"objective {recipe.objective!r}" if recipe.objective else "labels"
        raise ValueError(
            f"a {type(model).__name__} and recipe {recipe.name}, which learns {learns}: set the "
            "objective to that of the learner, or give the model inside"
        )
    if recipe.objective in TWO_VIEWS and processes().count > 1:
        raise ValueError(
            f"objective {recipe.objective!r} in {processes().count} processes: each would see "
            "the views of its own images alone; use one process"
        )
    if not wrapped:
        with torch.random.fork_rng([]):
            torch.manual_seed(seed_of(seed, "predictor"))
            model = LEARNERS[recipe.objective](model)
    elif isinstance(model, BYOL):  # a recipe may have changed the body's layers since
        model.begin_again()
    body_of(model).head.requires_grad_(False)
    return model


def body_of(learner: nn.Module) -> nn.Module:
    """The model from images to logits inside a learner."""
    return learner.model if isinstance(learner, tuple(LEARNERS.values())) else learner


def make_question(
    learner: nn.Module, teacher: nn.Module | None, batches: Batches, seed: int
) -> Question:
    """What a step asks: from the model, its images, their targets and the step to the loss."""
    recipe = batches.recipe
    if isinstance(learner, MaskedPatches):
        masks = Masks(learner, batches, seed)
        return lambda model, images, _, step: model(images, masks(step)).loss
    if isinstance(learner, MaskedAutoencoder):
        hidden = Masks(learner, batches, seed)
        return lambda model, images, _, step: model(images, hidden(step).places).loss
    if isinstance(learner, TwoViews):
        return lambda model, images, _, step: model(images, batches.second_view(step)).loss
    if isinstance(learner, NextPixels):
        return lambda model, images, *_: model(images).loss
    if teacher is None:
        return lambda model, images, targets, _: cross_entropy(
            model(images), targets, recipe.label_smoothing
        )
    taught = Teacher(teacher, batches, seed)
    return lambda model, images, targets, step: distillation_loss(
        model(images), targets, taught(images, step), recipe
    )


class Masks:
    """The corrupted or hidden patches of a run, each step's a function of the seed and the step.

    They are drawn for the whole batch, of which each process takes those of its images.
    """

    def __init__(self, learner: MaskedPatches | MaskedAutoencoder, batches: Batches, seed: int):
        self.patches, self.batches, self.seed = learner.num_patches, batches, seed
        self.share = learner.share if isinstance(learner, MaskedAutoencoder) else 0.5

    def __call__(self, step: int) -> ChosenPatches:
        chance = torch.Generator().manual_seed(seed_of(self.seed, step, "masks"))
        chosen = choose_masked(self.batches.recipe.batch_size, self.patches, chance, self.share)
        return chosen.part(slice(self.batches.rank, None, self.batches.processes))


def score(learner: nn.Module, dataset: Dataset) -> dict[str, float]:
    """What a row of the curve says of held-out images: ``accuracy``, and ``held_out_loss``.

    Of colours or of next pixels, if the learner predicts them. Of a learner from two views: the
    share of images whose nearest other image has their label, and the ``spread`` of the
    projections; of a masked autoencoder that share, and its error.
    """
    if isinstance(learner, TwoViews):
        return score_views(learner, dataset)
    if isinstance(learner, MaskedAutoencoder):
        return score_reconstruction(learner, dataset)
    if isinstance(learner, MaskedPatches):
        accuracy, loss = evaluate_colors(learner, dataset)
        return {"accuracy": accuracy, "held_out_loss": loss}
    if isinstance(learner, NextPixels):
        accuracy, loss = evaluate_pixels(learner, dataset)
        return {"accuracy": accuracy, "held_out_loss": loss}
    return {"accuracy": evaluate(learner, dataset)}


@torch.no_grad()
def score_views(learner: TwoViews, dataset: Dataset, batch_size: int = 256) -> dict[str, float]:
    """How far apart a learner's images lie, and whether the nearest other one has their label."""
    device = next(learner.parameters()).device
    features, projections = [], []
    with evaluating(learner):
        for images in dataset.images.split(batch_size):
            seen = mean_token(learner.model, normalize(images.to(device)))
            features.append(seen)
            projections.append(learner.projector(seen))
    accuracy = nearest_other(torch.cat(features), dataset.labels.to(device))
    return {"accuracy": accuracy, "spread": spread(torch.cat(projections))}


@torch.no_grad()
def evaluate_colors(
    model: MaskedPatches, dataset: Dataset, batch_size: int = 256, seed: int = 0
) -> tuple[float, float]:
    """Accuracy (0 to 1) and cross-entropy (nats) on the corrupted patches of held-out images.

    The same patches are corrupted each time, so that epochs and models can be compared. With
    several processes each looks at its own images.

    Args:
        seed: of the corrupted patches.

    Example:
        >>> import vitbook
        >>> from vitbook.datasets import load
        >>> from vitbook.training import MaskedPatches, evaluate_colors
        >>> model = MaskedPatches(vitbook.create_model("vit_micro_patch2_8"))
        >>> accuracy, loss = evaluate_colors(model, load("digits", "test"))
        >>> 0 <= accuracy <= 1, 1 < loss < 3
        (True, True)
    """
    here, device = processes(), model.mask.device
    chance = torch.Generator().manual_seed(seed_of(seed, "held-out masks"))
    own = slice(here.rank, None, here.count)
    chosen = choose_masked(len(dataset), model.num_patches, chance).part(own)
    images = dataset.images[own]
    right = loss = torch.zeros((), device=device)
    with evaluating(model):
        for first in range(0, len(images), batch_size):
            now = slice(first, first + batch_size)
            guesses = model(normalize(images[now].to(device)), chosen.part(now))
            right = right + (guesses.logits.argmax(dim=-1) == guesses.targets).sum()
            loss = loss + guesses.loss * guesses.targets.numel()
    patches = len(dataset) * chosen.places.shape[1]
    return here.sum(right).item() / patches, here.sum(loss).item() / patches
