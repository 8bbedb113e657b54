"""A copy that follows what learns, slowly and without a gradient, and what it says to it."""

import copy

import torch
from jaxtyping import Float
from torch import Tensor, nn

Scores = Float[Tensor, "batch prototypes"]


def slow_copies(*parts: nn.Module) -> tuple[nn.Module, ...]:
    """Copies of some parts as they are now, to which no gradient goes."""
    copied = copy.deepcopy(parts)
    for part in copied:
        part.requires_grad_(False)
    return copied


@torch.no_grad()
def follow(behind: nn.Module, ahead: nn.Module, momentum: float | int) -> None:
    """Move a slow copy toward the learning part, and into its mode.

    A loop that sets what does not learn to evaluation would take the batch's statistics from
    a slow projector's norm, and leave it those of no image at all.

    Args:
        behind: of :func:`slow_copies`.
        ahead: what it is a copy of.
        momentum: share that the copy's parameters keep of themselves: at 0 they are those of the
            learning part, at 1 they stay. Buffers, such as running statistics, stay as they are.

    Raises:
        ValueError: a momentum outside of 0 to 1.
    """
    if not 0 <= momentum <= 1:
        raise ValueError(f"momentum {momentum}: expected a share from 0 to 1")
    for copied, part in zip(behind.modules(), ahead.modules(), strict=True):
        copied.training = part.training
    for copied, weight in zip(behind.parameters(), ahead.parameters(), strict=True):
        copied.lerp_(weight, 1 - momentum)


def distillation_targets(
    scores: Scores, center: Float[Tensor, " prototypes"], temperature: float | int
) -> Scores:
    r"""What the student shall say: :math:`\mathrm{softmax}((g - c) / \tau)`, a row an image.

    DINO (Caron et al. 2021), section 3.1. The center :math:`c` keeps one prototype from winning
    for every image, a temperature below the student's keeps the answer from being even.

    Args:
        scores: of the slow copy.
        center: their running mean.

    Raises:
        ValueError: a temperature that is not above 0.
    """
    if not temperature > 0:
        raise ValueError(f"temperature {temperature}: expected a number above 0")
    return ((scores - center) / temperature).softmax(dim=1)
