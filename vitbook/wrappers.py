"""What torch puts around a module, and the names that the module has without it."""

from typing import Any

from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel

COMPILED = "_orig_mod"  # what torch.compile calls the module that it was given
AROUND = "module"  # what the others call theirs


def unwrapped(model: nn.Module) -> nn.Module:
    """The model itself: without ``torch.compile``, DataParallel or a mean of weights around it."""
    while inner := AROUND if isinstance(model, AveragedModel) else _inner(model):
        model = getattr(model, inner)
    return model


def own_names(model: nn.Module, names: list[str]) -> dict[str, str]:
    """Names as they are -> as they were before ``torch.compile`` or DataParallel took a part.

    Args:
        names: of parameters, buffers, parts or what else lies behind a path of ``model``.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from vitbook.wrappers import own_names
        >>> model = nn.Sequential(nn.DataParallel(nn.Linear(2, 3)))
        >>> own_names(model, list(model.state_dict()))
        {'0.module.weight': '0.weight', '0.module.bias': '0.bias'}
    """
    places = [
        (f"{path}.", f"{path}.{inner}.") if path else ("", f"{inner}.")
        for path, part in model.named_modules(remove_duplicate=False)
        if (inner := _inner(part))
    ]
    own = {name: name for name in names}
    for outer, place in reversed(places):  # the deepest first: its path has the others in it
        for name, so_far in own.items():
            if so_far.startswith(place):
                own[name] = outer + so_far.removeprefix(place)
    return own


def own_state(model: nn.Module) -> dict[str, Any]:
    """``model.state_dict()`` by the model's own names; a module may add what is no tensor."""
    model = unwrapped(model)
    state = model.state_dict()
    own = own_names(model, list(state))
    return {own[name]: tensor for name, tensor in state.items()}


def load_own_state(model: nn.Module, state: dict[str, Any], strict: bool = True) -> None:
    """Copy what :func:`own_state` gave into such a model.

    Raises:
        RuntimeError: a name is missing, left over, or of another shape.
    """
    now = {own: name for name, own in own_names(model, list(model.state_dict())).items()}
    model.load_state_dict({now.get(name, name): t for name, t in state.items()}, strict=strict)


def _inner(part: nn.Module) -> str:
    if COMPILED in part._modules:  # its class would take a second to import
        return COMPILED
    return AROUND if isinstance(part, nn.DataParallel | DistributedDataParallel) else ""
