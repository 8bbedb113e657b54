"""Low-rank adapters beside the linear layers of an encoder: put in, and merged."""

import torch
from torch import nn

from vitbook.layers import LowRankLinear


def add_adapters(model: nn.Module, rank: int, seed: int = 0) -> None:
    """Let small changes learn in the place of an encoder's linear layers (LoRA), in place.

    Of ``model`` only the adapters and its ``head`` learn then. A layer whose weight does not learn
    gets none.

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
    encoder = getattr(model, "encoder", None)
    inside = encoder.named_modules(remove_duplicate=False) if encoder is not None else ()
    places = {
        name: layer
        for name, layer in inside
        if type(layer) is nn.Linear and layer.weight.requires_grad
    }
    if not places:
        raise ValueError(
            f"adapters for a {type(model).__name__}: expected linear layers in model.encoder that "
            "learn; train without adapters, or let earlier parts learn"
        )
    most = min(min(layer.weight.shape) for layer in places.values())
    if not 1 <= rank <= most:
        raise ValueError(f"adapters of rank {rank}: expected 1 to {most}, the narrowest layer's")
    generator = torch.Generator().manual_seed(seed)
    # A layer that stands in several places has one adapter.
    adapted = {
        layer: LowRankLinear(layer, rank, generator) for layer in dict.fromkeys(places.values())
    }
    for name, layer in places.items():
        encoder.set_submodule(name, adapted[layer])
    for name, weight in model.named_parameters():
        if not name.startswith("head.") and name.rsplit(".", 1)[-1] not in ("down", "up"):
            weight.requires_grad_(False)


def merge_adapters(model: nn.Module) -> None:
    """Add each adapter to its layer: the model is of plain layers again, and answers the same."""
    plain = {}
    for name, layer in list(model.named_modules(remove_duplicate=False)):
        if isinstance(layer, LowRankLinear):
            if layer not in plain:
                plain[layer] = layer.merge()
            model.set_submodule(name, plain[layer])
