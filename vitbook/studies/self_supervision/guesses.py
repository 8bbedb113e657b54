"""Guesses of many classes in each image, and how often they are right."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64, UInt8
from torch import Tensor, nn

from vitbook.datasets import normalize
from vitbook.model_utilities import evaluating
from vitbook.training.engine.evaluation import NotFiniteError
from vitbook.training.engine.processes import processes


class Guesses(NamedTuple):
    """What a model says of some places of each image.

    Attributes:
        logits: of the classes.
        targets: the right classes.
    """

    logits: Float[Tensor, "batch places classes"]
    targets: Int64[Tensor, "batch places"]

    @property
    def loss(self) -> Float[Tensor, ""]:
        """Mean cross-entropy over the places of all images, in nats."""
        return F.cross_entropy(self.logits.flatten(0, 1), self.targets.flatten())


@torch.no_grad()
def score_guesses(
    learner: nn.Module,
    images: UInt8[Tensor, "own channels height width"],
    inputs: Callable[[slice], tuple] = lambda now: (),
    batch_size: int = 256,
) -> dict[str, float]:
    """``accuracy`` (0 to 1) and ``held_out_loss`` (nats) of all guesses, over all processes.

    Args:
        learner: whose forward pass returns :class:`Guesses`.
        images: those of this process.
        inputs: what the forward pass takes after some of the images.

    Raises:
        NotFiniteError: a loss that is NaN or infinite.
    """
    here, device = processes(), next(learner.parameters()).device
    right = loss = torch.zeros((), device=device)
    asked = torch.zeros((), dtype=torch.int64, device=device)
    with evaluating(learner):
        for first in range(0, len(images), batch_size):
            now = slice(first, first + batch_size)
            guesses = learner(normalize(images[now].to(device)), *inputs(now))
            right = right + (guesses.logits.argmax(dim=-1) == guesses.targets).sum()
            loss = loss + guesses.loss * guesses.targets.numel()
            asked += guesses.targets.numel()
    count = here.sum(asked).item()
    if not math.isfinite(mean := here.sum(loss).item() / count):
        raise NotFiniteError(
            f"{type(learner).__name__} guesses with a loss of {mean}: expected finite logits; look "
            "for it in its weights"
        )
    return {"accuracy": here.sum(right).item() / count, "held_out_loss": mean}
