"""What answers are worth that know the place of a hidden patch and see no image."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from vitbook.datasets import Dataset, normalize
from vitbook.model_utilities import evaluating
from vitbook.studies.moving_labels.token_labels import HEARD, Answered, TokenLabels, found
from vitbook.training.engine.batch_random import seed_of

STEPS, RATE = 300, 0.03  # of the search for the best answer of each place


class Worth(NamedTuple):
    """Of answers to the hidden tokens of some images."""

    loss: float
    found: float


def heard(learner: TokenLabels, dataset: Dataset) -> tuple[Answered, Int64[Tensor, "batch hidden"]]:
    """What a learner answers at the hidden patches that its score asks for, and these."""
    images = normalize(dataset.images[:HEARD])
    chance = torch.Generator().manual_seed(seed_of(0, "held-out masks"))
    places = learner.choose(len(images), chance).places
    with evaluating(learner), torch.no_grad():
        return learner(images, places), places


def answered(learner: TokenLabels, seen: Answered) -> Worth:
    """Of the learner's own answers."""
    return _worth(learner, seen.predicted.flatten(0, 1), seen.labels.flatten(0, 1))


def by_place(
    learner: TokenLabels,
    labels: Float[Tensor, "batch hidden dimensions"],
    places: Int64[Tensor, "batch hidden"],
) -> Worth:
    """Of one answer for each place, the best for these very labels: no image is needed for it.

    Where the loss is one less the cosine, that answer is the mean label of the place; of the other
    losses the search begins there. At most one token of each place can be found so.
    """
    flat, where = labels.flatten(0, 1), places.flatten()
    count = int(where.max()) + 1
    table = torch.zeros(count, flat.shape[1]).index_add(0, where, flat).requires_grad_()
    table.data = F.normalize(table.data, dim=1)
    optimizer = torch.optim.Adam([table], lr=RATE)
    with evaluating(learner):
        for _ in range(STEPS):
            optimizer.zero_grad()
            learner.loss(F.normalize(table, dim=1)[where], flat).backward()
            optimizer.step()
        return _worth(learner, F.normalize(table.detach(), dim=1)[where], flat)


def _worth(learner: TokenLabels, answers: Tensor, labels: Tensor) -> Worth:
    with evaluating(learner), torch.no_grad():
        return Worth(learner.loss(answers, labels).item(), found(answers, labels))
