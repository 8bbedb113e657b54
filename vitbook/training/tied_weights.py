"""The state of a model in which one tensor may have several names, as in shared positions.

safetensors' ``save_model`` writes a file by itself, neither atomically nor in half precision, and
keeps its function that finds the names private.
"""

from torch import Tensor, nn


def unique_state(module: nn.Module) -> dict[str, Tensor]:
    """``module.state_dict()``, but a tensor that several parts share has its first name only.

    safetensors does not write one tensor under two names.
    """
    first = first_names(module)
    return {name: tensor for name, tensor in module.state_dict().items() if first[name] == name}


def load_unique_state(module: nn.Module, state: dict[str, Tensor]) -> None:
    """Copy what :func:`unique_state` gave back into such a module.

    Raises:
        RuntimeError: a name is missing, left over, or of another shape.
    """
    again = {
        name: state[first]
        for name, first in first_names(module).items()
        if name != first and first in state
    }
    module.load_state_dict(state | again)


def first_names(module: nn.Module) -> dict[str, str]:
    """Every name of the state, and the first name that the same tensor has."""
    # As they are, not detached: a copy of a view would have lost who it is.
    own, first = module.state_dict(keep_vars=True), {}
    return {name: first.setdefault(id(tensor), name) for name, tensor in own.items()}
