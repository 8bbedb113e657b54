"""What changes a model's forward pass and is no weight: a checkpoint has to keep it too."""

from typing import Any

from torch import nn

from vitbook.layers import PerformerAttention
from vitbook.model_utilities import own_names

CONSTANTS: dict[type[nn.Module], tuple[str, ...]] = {
    nn.LayerNorm: ("eps",),
    nn.RMSNorm: ("eps",),
    nn.GroupNorm: ("eps",),
    nn.BatchNorm2d: ("eps",),
    PerformerAttention: ("epsilon", "scale"),
}


def constants_of(model: nn.Module) -> dict[str, float]:
    """Path of a module, dot, name of the constant -> its value."""
    return {name: getattr(*place) for name, place in _places(model).items()}


def set_constants(model: nn.Module, constants: dict[str, Any]) -> None:
    """Set what :func:`constants_of` gave, of such a model.

    Raises:
        ValueError: a name that the model has no such constant for, or no number.
    """
    places = _places(model)
    for name, value in constants.items():
        if name not in places or type(value) not in (int, float):
            raise ValueError(f"constant {name} {value!r}: expected numbers of this model's layers")
    for name, value in constants.items():
        setattr(*places[name], value)


def _places(model: nn.Module) -> dict[str, tuple[nn.Module, str]]:
    places = {
        f"{path}.{name}": (module, name)
        for path, module in model.named_modules()
        for kind, names in CONSTANTS.items()
        if isinstance(module, kind)
        for name in names
    }
    own = own_names(model, list(places))
    return {own[name]: place for name, place in places.items()}


def set_norm_eps(model: nn.Module, eps: float) -> None:
    """Let every LayerNorm of ``model`` divide by the root of its variance plus ``eps``.

    Codes differ, and weights fit the one that they grew with.
    """
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = eps
