"""A model changed in place: other layers, dropout and stochastic depth, first weights.

Each of these is the recipe's to set or the reader's to try, and no part of a paper's model.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from vitbook.errors import UnknownNameError, is_whole_number
from vitbook.layers import (
    Dropout,
    LowRankLinear,
    PrunedLinear,
    QuantizedLinear,
    StochasticDepth,
)
from vitbook.layers.initialization import INITIALIZATIONS


def swap_layers(
    part: nn.Module, kind: type[nn.Module], make: Callable[[nn.Module], nn.Module]
) -> int:
    """Put what ``make`` builds in the place of each layer of exactly ``kind``, in place.

    Returns:
        How many layers there were; one that stands in several places counts once, and has one
        substitute.
    """
    built: dict[nn.Module, nn.Module] = {}
    for name, layer in list(part.named_modules(remove_duplicate=False)):
        if type(layer) is kind:
            if layer not in built:
                built[layer] = make(layer)
            part.set_submodule(name, built[layer])
    return len(built)


def initialize(model: nn.Module, name: str) -> None:
    """Draw the first weights of ``model`` anew, in place.

    Args:
        name: one of :data:`~vitbook.layers.initialization.INITIALIZATIONS`.

    Raises:
        UnknownNameError: no such way; names the nearest.
    """
    if name not in INITIALIZATIONS:
        raise UnknownNameError("initialization", name, INITIALIZATIONS)
    INITIALIZATIONS[name](model)


def set_dropout(model: nn.Module, rate: float) -> None:
    """Set how often a number of ``model`` is set to zero while training (Srivastava et al. 2014).

    One rate for all places: in a block after every linear layer but those to queries, keys and
    values, and after the positions are added (ViT paper, appendix B.1; table 3 has 0.1 for
    ImageNet). T2T's module keeps a dropout of its own; Ghost's cheap operations and the layers
    between DenseNet's blocks have none.

    Args:
        rate: from 0 up to, not with, 1.

    Raises:
        ValueError: no such rate, or one above 0 for a model that has no dropout.
    """
    rate = Dropout(rate).rate  # which refuses what is none
    places = [module for module in model.modules() if isinstance(module, Dropout)]
    if rate and not places:
        raise ValueError(
            f"{type(model).__name__} has no dropout, the recipe asks for {rate:g}: use a recipe "
            "with dropout=0"
        )
    for place in places:
        place.rate = rate


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


def add_adapters(model: nn.Module, rank: int, seed: int = 0) -> None:
    """Let small changes learn in the place of an encoder's linear layers (LoRA), in place.

    Of ``model`` only the adapters and its ``head`` learn then. A layer whose weight does not learn
    gets one that does not learn either.

    Args:
        rank: of each change.
        seed: of their first noise.

    Raises:
        ValueError: no linear layer that learns in ``model.encoder``, no ``model.head`` beside it, a
            rank that a layer has not, or a weight that two layers share; the model is then as it
            was.
    """
    layers = _linear_layers(model, "adapters")
    most = min(min(layer.weight.shape) for layer in layers)
    if not is_whole_number(rank) or not 1 <= rank <= most:
        raise ValueError(f"adapters of rank {rank!r}: expected 1 to {most}, the narrowest layer's")
    if len({layer.weight for layer in layers}) < len(layers):
        raise ValueError(
            "two linear layers of model.encoder share one weight, into which two adapters cannot "
            "be merged: share the layer itself, or leave adapter_rank out"
        )
    head = getattr(model, "head", None)
    if not isinstance(head, nn.Module):
        raise ValueError(
            f"adapters for a {type(model).__name__}: expected model.head, which learns beside "
            "them; give the head this name, or leave adapter_rank out"
        )
    generator = torch.Generator().manual_seed(seed)

    def adapted(layer: nn.Linear) -> LowRankLinear:
        learns = layer.weight.requires_grad
        found = LowRankLinear(layer, rank, generator)
        found.down.requires_grad_(learns)
        found.up.requires_grad_(learns)
        return found

    swap_layers(model.encoder, nn.Linear, adapted)
    own = set(head.parameters())  # a compiled model has them under other names
    for name, weight in model.named_parameters():
        if weight not in own and name.rsplit(".", 1)[-1] not in ("down", "up"):
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


@torch.no_grad()
def prune_weights(model: nn.Module, share: float) -> None:
    """Set the smallest weights of an encoder's linear layers to zero, where they then stay.

    Magnitude pruning (Han et al. 2015) with one threshold for all layers.

    Args:
        share: of the weights of these layers, more than 0 and less than 1.

    Raises:
        ValueError: no linear layer that learns in ``model.encoder``, weights that are NaN, or
            another share; the model is then as it was.
    """
    if not 0 < share < 1:
        raise ValueError(f"a share of {share} pruned: expected more than 0 and less than 1")
    layers = _linear_layers(model, "pruning")
    sizes = torch.cat([layer.weight.abs().flatten() for layer in layers])
    if sizes.isnan().any():
        raise ValueError("weights that are NaN cannot be pruned by size: expected finite ones")
    number = min(max(round(share * len(sizes)), 1), len(sizes) - 1)
    kept = torch.ones_like(sizes, dtype=torch.bool)
    kept[sizes.argsort(stable=True)[:number]] = False  # of as large ones the first: never all
    masks = dict(zip(layers, kept.split([layer.weight.numel() for layer in layers]), strict=True))
    swap_layers(
        model.encoder,
        nn.Linear,
        lambda layer: PrunedLinear(layer, masks[layer].view_as(layer.weight).clone()),
    )


def settle_pruned(model: nn.Module) -> None:
    """Plain layers with zeros in them: the answers stay, and nothing keeps the zeros zero."""
    swap_layers(model, PrunedLinear, PrunedLinear.settle)


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
