"""Parameters, and the multiply-accumulates of a pass."""

from collections.abc import Callable

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode


def count_parameters(model: nn.Module) -> int:
    """Numbers in a model's parameters, frozen ones included; buffers do not count.

    Example:
        >>> import vitbook
        >>> from vitbook.measure import count_parameters
        >>> count_parameters(vitbook.create_model("vit_micro_patch2_8"))
        136138
    """
    return sum(parameter.numel() for parameter in model.parameters())


@torch.no_grad()
def count_macs(model: nn.Module, *inputs) -> int:
    """Multiply-accumulates of one forward pass of ``inputs``, whole batch.

    torch's flop counter sees matrix products, convolutions and attention, each multiply-add as
    two; this is half of it. Norms, activations and additions are not counted, as in the papers.

    Example:
        >>> import torch
        >>> from vitbook.measure import count_macs
        >>> count_macs(torch.nn.Linear(64, 10), torch.zeros(5, 64))
        3200
    """
    return count_step_macs(lambda: model(*inputs))


def count_step_macs(step: Callable[[], object]) -> int:
    """Multiply-accumulates of all that ``step`` runs: a training step counts its backward pass."""
    # The plain kernel: of a fused one the counter also adds what its backward pass computes again,
    # and older versions of torch have no formula for that of the CPU.
    with (
        FlopCounterMode(display=False) as counter,
        torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH),
    ):
        step()
    return counter.get_total_flops() // 2
