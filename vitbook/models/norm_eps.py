"""What a LayerNorm adds to the variance: codes differ, and weights fit the one they grew with."""

from torch import nn


def set_norm_eps(model: nn.Module, eps: float) -> None:
    """Let every LayerNorm of ``model`` divide by the root of its variance plus ``eps``."""
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = eps
