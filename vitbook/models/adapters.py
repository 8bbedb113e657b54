"""Encoders whose linear layers learn in another way: by small changes, or with rounded weights."""

from functools import partial

import torch
from torch import nn

from vitbook.layers import LowRankLinear, QuantizedLinear
from vitbook.models.swaps import swap_layers


def add_adapters(model: nn.Module, rank: int, seed: int = 0) -> None:
    """Let small changes learn in the place of an encoder's linear layers (LoRA), in place.

    Of ``model`` only the adapters and its ``head`` learn then. A layer whose weight does not learn
    gets one that does not learn either.

    Args:
        rank: of each change.
        seed: of their first noise.

    Raises:
        ValueError: no linear layer that learns in ``model.encoder``, or a rank that a layer of it
            has not; the model is then as it was.

    Example:
        >>> import vitbook
        >>> from vitbook.models.adapters import add_adapters
        >>> model = vitbook.create_model("vit_micro_patch2_8")
        >>> add_adapters(model, rank=4)
        >>> sum(weight.numel() for weight in model.encoder.parameters() if weight.requires_grad)
        12288
    """
    layers = _linear_layers(model, "adapters")
    most = min(min(layer.weight.shape) for layer in layers)
    if not 1 <= rank <= most:
        raise ValueError(f"adapters of rank {rank}: expected 1 to {most}, the narrowest layer's")
    generator = torch.Generator().manual_seed(seed)

    def adapted(layer: nn.Linear) -> LowRankLinear:
        learns = layer.weight.requires_grad
        found = LowRankLinear(layer, rank, generator)
        found.down.requires_grad_(learns)
        found.up.requires_grad_(learns)
        return found

    swap_layers(model.encoder, nn.Linear, adapted)
    for name, weight in model.named_parameters():
        if not name.startswith("head.") and name.rsplit(".", 1)[-1] not in ("down", "up"):
            weight.requires_grad_(False)


def merge_adapters(model: nn.Module) -> None:
    """Add each adapter to its layer: the model is of plain layers again, and answers the same."""
    swap_layers(model, LowRankLinear, LowRankLinear.merge)


def round_while_learning(model: nn.Module, bits: int) -> None:
    """Let an encoder's linear layers compute with rounded weights and learn the exact ones.

    Args:
        bits: of a rounded weight, 2 to 8; see :class:`vitbook.layers.QuantizedLinear`.

    Raises:
        ValueError: no linear layer that learns in ``model.encoder``, or other bits; the model is
            then as it was.
    """
    QuantizedLinear(_linear_layers(model, "rounded weights")[0], bits)  # refuses bits
    swap_layers(model.encoder, nn.Linear, partial(QuantizedLinear, bits=bits))


def round_weights(model: nn.Module) -> None:
    """Plain layers with the rounded weights: the answers stay, the exact weights are lost."""
    swap_layers(model, QuantizedLinear, QuantizedLinear.round)


def _linear_layers(model: nn.Module, what: str) -> list[nn.Linear]:
    encoder = getattr(model, "encoder", None)
    inside = encoder.modules() if isinstance(encoder, nn.Module) else ()
    found = [part for part in inside if type(part) is nn.Linear]
    if not any(layer.weight.requires_grad for layer in found):
        raise ValueError(
            f"{what} for a {type(model).__name__}: expected linear layers in model.encoder that "
            "learn; leave them out of the recipe, or let earlier parts learn"
        )
    return found
