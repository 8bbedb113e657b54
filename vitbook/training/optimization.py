"""Which weights decay, how the learning rate moves, which mean of the weights is kept."""

import math
import re

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from vitbook.errors import first_few
from vitbook.training.recipe import Recipe


def make_optimizer(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """AdamW or SGD with momentum, in torch's fused form, over the parameters that learn."""
    groups = parameter_groups(model, recipe)
    if recipe.optimizer == "sgd":
        return torch.optim.SGD(
            groups, lr=recipe.learning_rate, momentum=recipe.momentum, fused=True
        )
    return torch.optim.AdamW(groups, lr=recipe.learning_rate, fused=True)


def parameter_groups(model: nn.Module, recipe: Recipe) -> list[dict]:
    """Parameters by their weight decay, by their ``rate``, as a factor of the learning rate, and by
    ``from_epoch``, at which they enter its course: 0, or where the warm-up ends.

    Matrices decay; biases, norms, positions and prefix tokens do not, unless the recipe's fault is
    "decayed_positions". A parameter that several parts share comes once, one that does not learn
    not at all.

    Raises:
        ValueError: rates by depth for a model that has no blocks to count, or a warm-up of a part
            that the model does not have, or that does not learn.
    """
    warm = tuple(f"{part.strip()}." for part in recipe.warmup_parts.split(","))
    cold = recipe.warmup_epochs if recipe.warmup_parts else 0.0  # else all warm up, if at all
    learns = [f"{_own_name(name)}." for name, w in model.named_parameters() if w.requires_grad]
    for part in warm if recipe.warmup_parts else ():
        if not any(name.startswith(part) for name in learns):
            parts = first_few(list(dict.fromkeys(".".join(n.split(".")[:-2]) for n in learns)), 4)
            raise ValueError(
                f"warmup_parts {recipe.warmup_parts!r}: {part[:-1]!r} is no part of this "
                f"{type(model).__name__} that learns; it has {parts}"
            )
    groups: dict[tuple[bool, float, float], list[nn.Parameter]] = {
        (True, 1.0, cold): [],
        (False, 1.0, cold): [],
    }
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        is_place = not {"prefix", "position", "positions"}.isdisjoint(name.split("."))
        spared = is_place and recipe.fault != "decayed_positions"
        is_matrix = parameter.ndim >= 2 and not spared
        from_epoch = 0.0 if f"{_own_name(name)}.".startswith(warm) else cold
        key = is_matrix, _rate(name, model, recipe), from_epoch
        groups.setdefault(key, []).append(parameter)
    return [
        {
            "params": parameters,
            "weight_decay": recipe.weight_decay if is_matrix else 0.0,
            "rate": rate,
            "from_epoch": from_epoch,
        }
        for (is_matrix, rate, from_epoch), parameters in groups.items()
    ]


def _own_name(name: str) -> str:
    """As the model has it: an objective holds the model that it trains."""
    return name.removeprefix("model.")


def _rate(name: str, model: nn.Module, recipe: Recipe) -> float:
    """Of a parameter, as a factor of the recipe's learning rate."""
    if name.startswith("head.") and recipe.head_learning_rate:
        return recipe.head_learning_rate / recipe.learning_rate
    if recipe.layer_decay == 1:
        return 1.0
    blocks = getattr(getattr(model, "encoder", None), "blocks", None)
    if not blocks:
        raise ValueError(
            f"layer_decay {recipe.layer_decay:g} for a {type(model).__name__}: expected a model "
            "with encoder.blocks, whose depth can be counted; use layer_decay=1"
        )
    depth = 1 + len(blocks)  # the last norm and the head
    if match := re.match(r"encoder\.blocks\.(\d+)\.", name):
        depth = 1 + int(match[1])
    elif not name.startswith(("encoder.", "head.")):
        depth = 0  # what the tokens are made of
    return recipe.layer_decay ** (1 + len(blocks) - depth)


def learning_rate(epoch: float | int, recipe: Recipe) -> float:
    """After ``epoch`` epochs, which need not be whole: up in a line, down along the decay."""
    if epoch < recipe.warmup_epochs:
        return recipe.learning_rate * (epoch + 1e-3) / recipe.warmup_epochs
    rest = max(recipe.epochs - recipe.warmup_epochs, 1e-9)
    progress = min((epoch - recipe.warmup_epochs) / rest, 1.0)
    height = recipe.learning_rate - recipe.final_learning_rate
    left = 1 - progress if recipe.decay == "linear" else 0.5 * (1 + math.cos(math.pi * progress))
    return recipe.final_learning_rate + height * left


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
