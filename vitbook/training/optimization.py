"""Which weights decay, how the learning rate moves, which mean of the weights is kept."""

import math

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from vitbook.training.recipe import Recipe


def adamw(model: nn.Module, recipe: Recipe) -> torch.optim.AdamW:
    """The optimizer of every recipe, in torch's fused form."""
    groups = parameter_groups(model, recipe)
    return torch.optim.AdamW(groups, lr=recipe.learning_rate, fused=True)


def parameter_groups(model: nn.Module, recipe: Recipe) -> list[dict]:
    """Matrices decay; biases, norms, positions and prefix tokens do not.

    A parameter that several parts share comes once.
    """
    decay, keep = [], []
    for name, parameter in model.named_parameters():
        is_place = not {"prefix", "position", "positions"}.isdisjoint(name.split("."))
        is_matrix = parameter.ndim >= 2 and not is_place
        (decay if is_matrix else keep).append(parameter)
    return [
        {"params": decay, "weight_decay": recipe.weight_decay},
        {"params": keep, "weight_decay": 0.0},
    ]


def learning_rate(epoch: float | int, recipe: Recipe) -> float:
    """After ``epoch`` epochs, which need not be whole: up in a line, down along a cosine."""
    if epoch < recipe.warmup_epochs:
        return recipe.learning_rate * (epoch + 1e-3) / recipe.warmup_epochs
    rest = max(recipe.epochs - recipe.warmup_epochs, 1e-9)
    progress = min((epoch - recipe.warmup_epochs) / rest, 1.0)
    height = recipe.learning_rate - recipe.final_learning_rate
    return recipe.final_learning_rate + height * 0.5 * (1 + math.cos(math.pi * progress))


def moving_average(model: nn.Module, recipe: Recipe) -> AveragedModel | None:
    """The exponential mean of the weights, which starts as the first weights it is shown."""
    if not recipe.ema:
        return None
    average = get_ema_multi_avg_fn(recipe.ema)

    def update(mean: list[Tensor], current: list[Tensor], steps: Tensor) -> None:
        if mean[0].is_floating_point():
            average(mean, current, steps)
        else:  # torch would round 0.9 * 3 + 0.1 * 3 down to 2, and a table of indices be lost
            torch._foreach_copy_(mean, current)

    return AveragedModel(model, multi_avg_fn=update, use_buffers=True).requires_grad_(False)
