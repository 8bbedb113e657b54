"""Rounded weights that jump to and fro while they learn."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import product
from unittest import mock

import torch
from torch import Tensor, nn

from vitbook import datasets
from vitbook.models.editing import QuantizedLinear
from vitbook.runs import get_recipe
from vitbook.runs.measuring import Sheet, measurement
from vitbook.training import load_checkpoint, train

# Of a weight that oscillates, by Nagel et al. 2022, section 3.2.
THRESHOLD = 0.005
# The weight of the newest step in the running mean.
MEMORY = 0.01


@dataclass
class Oscillations:
    """How often the code of each weight changed its direction.

    Attributes:
        steps: training steps seen.
        frequency: of each layer in the order run, the running mean of "it turned round".
    """

    steps: int = 0
    frequency: list[Tensor] = field(default_factory=list)

    def share(self) -> float:
        """Of all weights, those whose frequency is above the threshold."""
        every = torch.cat([each.flatten() for each in self.frequency])
        return (every > THRESHOLD).double().mean().item()


@contextmanager
def count_oscillations() -> Iterator[Oscillations]:
    r"""Watch every :class:`vitbook.layers.QuantizedLinear` that learns in the block.

    A weight whose exact value lies near the middle between two codes is pushed over the edge and
    back. Its code oscillates in a step if it changes, and in the other direction than when it
    changed before (Nagel et al. 2022, "Overcoming oscillations in quantization-aware training",
    equations 5 and 6):

    .. math:: f^t = m\, o^t + (1 - m)\, f^{t-1}
    """
    found, seen = Oscillations(), {}

    def look(module: nn.Module, args: tuple, output: Tensor) -> None:
        learns = isinstance(module, QuantizedLinear) and module.training
        if not learns or not torch.is_grad_enabled():
            return
        codes = module.codes()
        if module not in seen:
            seen[module] = [codes, torch.zeros_like(codes), len(found.frequency)]
            found.frequency.append(torch.zeros(codes.shape))
            found.steps = max(found.steps, 1)
            return
        before, direction, index = seen[module]
        change = (codes.short() - before.short()).sign().to(torch.int8)
        turned = (change != 0) & (direction != 0) & (change != direction)
        found.frequency[index].lerp_(turned.float(), MEMORY)
        seen[module] = [codes, torch.where(change != 0, change, direction), index]
        found.steps += index == 0

    handle = nn.modules.module.register_module_forward_hook(look)
    try:
        yield found
    finally:
        handle.remove()


@measurement(
    oscillations={"bits": "{bits}", "learns with": "{weights}", "oscillate": "{share:.3f}"}
)  # fmt: skip
def oscillations(sheet: Sheet) -> None:
    """Count digits' weights that oscillate in 440 steps with rounded, and with exact, weights."""
    start, data = "digits-vit_micro_patch2_8-digits-seed0", datasets.load("digits", "train")
    if sheet.device.type == "cuda":
        raise ValueError(
            "device cuda: expected cpu, as a GPU replays recorded steps, in which no code is seen"
        )
    sheet.expect("digits")

    def row(bits: int, weights: str) -> dict:
        recipe = get_recipe(
            "digits", epochs=20, warmup_epochs=1.0, learning_rate=5e-4, weight_bits=bits
        )
        model = load_checkpoint(start).model.requires_grad_(True)
        # The codes are those that the weights would have; what the layer computes with is exact.
        exactly = mock.patch.object(QuantizedLinear, "forward", nn.Linear.forward)
        with exactly if weights == "exact" else nullcontext(), count_oscillations() as turns:
            train(model, data, recipe, progress=False, device=sheet.device)
        share = round(turns.share(), 4)
        return {"bits": bits, "weights": weights, "steps": turns.steps, "share": share}

    asked = product((4,), ("rounded", "exact"))
    rows = [sheet.once(str(each), row, *each) for each in asked]
    settings = {
        "start": start,
        "seed": 0,
        "counted": "running mean of turns (0.01 a step) above 0.005",
    }
    sheet.write("digits", settings, rows)
