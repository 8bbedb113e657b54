"""Which weights decay, how the learning rate moves, which mean of the weights is kept."""

import math
import warnings
from collections.abc import Set

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from vitbook.errors import first_few
from vitbook.runs.recipe import Recipe
from vitbook.training.engine.muon import AnyOptimizer, muon_and_adamw
from vitbook.training.engine.parts_of_models import begins_with, depths, head_of, matrices, names_of

FIRST_WEIGHTS = 0.05  # of the mean of the weights may be those after one step


def make_optimizer(model: nn.Module, recipe: Recipe) -> AnyOptimizer:
    """AdamW, SGD with momentum, or Muon beside AdamW, over the parameters that learn."""
    groups = parameter_groups(model, recipe)
    if recipe.optimizer == "sgd":
        return torch.optim.SGD(
            groups, lr=recipe.learning_rate, momentum=recipe.momentum, fused=True
        )
    if recipe.optimizer == "muon":
        return muon_and_adamw(model, groups, recipe)
    return torch.optim.AdamW(groups, lr=recipe.learning_rate, fused=True)


def parameter_groups(model: nn.Module, recipe: Recipe) -> list[dict]:
    """Parameters by their weight decay, by their ``rate``, as a factor of the learning rate, and by
    ``from_epoch``, at which they enter its course: 0, or where the warm-up ends.

    What multiplies decays; biases, norms, positions, tokens, embeddings and scales do not, see
    :func:`.matrices`, unless a part of the model has ``decays_tables``. A parameter that several
    parts share comes once, one that does not learn not at all. Libraries' models and what stands
    around a model are known by what they declare.

    Raises:
        ValueError: rates by depth for a model that has no blocks to count, a rate of a head that it
            has not or that does not learn, or a warm-up of such a part.
    """
    names = {weight: own for weight, own in names_of(model).items() if weight.requires_grad}
    warm = tuple(part.strip() for part in recipe.warmup_parts.split(",") if recipe.warmup_parts)
    cold = recipe.warmup_epochs if recipe.warmup_parts else 0.0  # else all warm up, if at all
    for part in warm:
        if not any(begins_with(own, part) for own in names.values()):
            learns = [own[-1] for own in names.values()]
            parts = first_few(list(dict.fromkeys(".".join(n.split(".")[:-1]) for n in learns)), 4)
            raise ValueError(
                f"warmup_parts {recipe.warmup_parts!r}: {part!r} is no part of this "
                f"{type(model).__name__} that learns; it has {parts}"
            )
    multiply, rates = matrices(model), _rates(model, recipe, names.keys())
    all_tables = any(hasattr(part, "decays_tables") for part in model.modules())
    groups: dict[tuple[bool, float, float], list[nn.Parameter]] = {
        (True, 1.0, cold): [],
        (False, 1.0, cold): [],
    }
    for parameter, own in names.items():
        from_epoch = 0.0 if any(begins_with(own, part) for part in warm) else cold
        decays = parameter in multiply or (all_tables and parameter.ndim >= 2)
        key = decays, rates[parameter], from_epoch
        groups.setdefault(key, []).append(parameter)
    return [
        {
            "params": parameters,
            "weight_decay": recipe.weight_decay if decays else 0.0,
            "rate": rate,
            "from_epoch": from_epoch,
        }
        for (decays, rate, from_epoch), parameters in groups.items()
    ]


def _rates(model: nn.Module, recipe: Recipe, learn: Set[Tensor]) -> dict[Tensor, float]:
    """Of each parameter, as a factor of the recipe's learning rate."""
    rates = dict.fromkeys(learn, 1.0)
    if recipe.layer_decay != 1:
        depth = depths(model)
        if depth is None:
            raise ValueError(
                f"layer_decay {recipe.layer_decay:g} for a {type(model).__name__}: expected a "
                "model with encoder.blocks, or blocks alike in a row, whose depth can be counted; "
                "use layer_decay=1"
            )
        last = max(depth.values())
        # What learns beside the model, in an objective, is as far from its images as its head.
        rates = {weight: recipe.layer_decay ** (last - depth.get(weight, last)) for weight in learn}
    if recipe.head_learning_rate:
        head = head_of(model) & learn
        if not head:
            raise ValueError(
                f"head_learning_rate {recipe.head_learning_rate:g} for a {type(model).__name__}: "
                "expected a model with a head that learns, called head, heads, classifier or fc; "
                "use head_learning_rate=0"
            )
        rates |= dict.fromkeys(head, recipe.head_learning_rate / recipe.learning_rate)
    return rates


def learning_rate(epoch: float | int, recipe: Recipe) -> float:
    """After ``epoch`` epochs, which need not be whole: up in a line, down along the decay."""
    if epoch < recipe.warmup_epochs:
        return recipe.learning_rate * (epoch + 1e-3) / recipe.warmup_epochs
    rest = max(recipe.epochs - recipe.warmup_epochs, 1e-9)
    progress = min((epoch - recipe.warmup_epochs) / rest, 1.0)
    height = recipe.learning_rate - recipe.final_learning_rate
    left = 1 - progress if recipe.decay == "linear" else 0.5 * (1 + math.cos(math.pi * progress))
    return recipe.final_learning_rate + height * left


def moving_average(model: nn.Module, recipe: Recipe, steps: int) -> AveragedModel | None:
    """The exponential mean of the weights, which starts as the first weights it is shown.

    It warns where much of it would still be these after all ``steps``.
    """
    if not recipe.ema:
        return None
    first = recipe.ema ** (steps - 1)  # their share in the end
    if steps > 1 and first > FIRST_WEIGHTS:
        fits = math.floor(1000 * FIRST_WEIGHTS ** (1 / (steps - 1))) / 1000
        warnings.warn(
            f"ema {recipe.ema:g} over {steps:,} steps: {first:.0%} of the weights that are kept is "
            f"the model after one step; set ema to 0 or at most {fits:g}, or take more steps",
            stacklevel=3,
        )
    average = get_ema_multi_avg_fn(recipe.ema)

    def update(mean: list[Tensor], current: list[Tensor], steps: Tensor) -> None:
        if mean[0].is_floating_point():
            average(mean, current, steps)
        else:  # torch would round 0.9 * 3 + 0.1 * 3 down to 2, and a table of indices be lost
            torch._foreach_copy_(mean, current)

    return AveragedModel(model, multi_avg_fn=update, use_buffers=True).requires_grad_(False)
