"""What a run learns to answer: the labels, or without them the colours of patches."""

import torch
from torch import nn

from vitbook.datasets import Dataset, normalize
from vitbook.modes import evaluating
from vitbook.training.batch_random import seed_of
from vitbook.training.batches import Batches
from vitbook.training.evaluation import evaluate
from vitbook.training.masked_patches import ChosenPatches, MaskedPatches, choose_masked
from vitbook.training.processes import processes
from vitbook.training.recipe import Recipe


def make_learner(model: nn.Module, recipe: Recipe, seed: int) -> nn.Module:
    """What is trained: the model itself, or a :class:`~.masked_patches.MaskedPatches` around it.

    The head of a model that learns without labels does not learn.

    Raises:
        ValueError: masked patches of a model that is no plain Vision Transformer, or for a recipe
            without them.
    """
    wrapped = isinstance(model, MaskedPatches)
    if not recipe.objective:
        if wrapped:
            raise ValueError(
                f"recipe {recipe.name} learns labels and the model predicts masked patches: set "
                'its objective to "masked_patches", or give the model inside'
            )
        return model
    if not wrapped:
        with torch.random.fork_rng([]):
            torch.manual_seed(seed_of(seed, "predictor"))
            model = MaskedPatches(model)
    body_of(model).head.requires_grad_(False)
    return model


def body_of(learner: nn.Module) -> nn.Module:
    """The model from images to logits inside a learner."""
    return learner.model if isinstance(learner, MaskedPatches) else learner


class Masks:
    """The corrupted patches of a run, each step's a function of the seed and the step.

    They are drawn for the whole batch, of which each process takes those of its images.
    """

    def __init__(self, learner: MaskedPatches, batches: Batches, seed: int):
        self.patches, self.batches, self.seed = learner.num_patches, batches, seed

    def __call__(self, step: int) -> ChosenPatches:
        chance = torch.Generator().manual_seed(seed_of(self.seed, step, "masks"))
        chosen = choose_masked(self.batches.recipe.batch_size, self.patches, chance)
        return chosen.part(slice(self.batches.rank, None, self.batches.processes))


def score(learner: nn.Module, dataset: Dataset) -> dict[str, float]:
    """What a row of the curve says of held-out images: ``accuracy``, and ``held_out_loss``.

    With an objective other than labels both are of it.
    """
    if isinstance(learner, MaskedPatches):
        accuracy, loss = evaluate_colors(learner, dataset)
        return {"accuracy": accuracy, "held_out_loss": loss}
    return {"accuracy": evaluate(learner, dataset)}


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
