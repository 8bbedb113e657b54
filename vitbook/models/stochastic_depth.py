"""Stochastic depth is the recipe's to set, not the model's."""

from torch import nn

from vitbook.layers import StochasticDepth


def set_stochastic_depth(model: nn.Module, rate: float, grows: bool = True) -> None:
    """Set how often each block of ``model`` is skipped while training (Huang et al. 2016).

    Args:
        rate: of the last block, from 0 up to, not with, 1.
        grows: in equal steps from 0 in the first block; else the same in every block.

    Raises:
        ValueError: a rate above 0 for a model that has no stochastic depth.
    """
    paths = [module for module in model.modules() if isinstance(module, StochasticDepth)]
    if rate and not paths:
        raise ValueError(
            f"{type(model).__name__} has no stochastic depth, the recipe asks for {rate:g}: "
            "use a recipe with drop_path=0"
        )
    for block, path in enumerate(paths):
        path.rate = rate * block / max(len(paths) - 1, 1) if grows else rate
