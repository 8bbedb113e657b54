"""Other linear layers in the places of a part's own, and back."""

from collections.abc import Callable

from torch import nn


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
