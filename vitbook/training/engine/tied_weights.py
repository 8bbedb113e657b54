"""The state of a model in which one tensor may have several names, as in shared positions.

safetensors' ``save_model`` writes a file by itself, neither atomically nor in half precision, and
keeps its function that finds the names private.
"""

from torch import Tensor, nn

from vitbook.model_utilities import load_own_state, own_names


def unique_state(module: nn.Module) -> dict[str, Tensor]:
    """``module.state_dict()``, but a tensor that several parts share has its first name only.

    safetensors does not write one tensor under two names. A part that ``torch.compile`` or
    DataParallel wraps has the names that it had before.
    """
    first = first_names(module)
    own = own_names(module, list(first))
    return {
        own[name]: tensor for name, tensor in module.state_dict().items() if first[name] == name
    }


def load_unique_state(module: nn.Module, state: dict[str, Tensor]) -> None:
    """Copy what :func:`unique_state` gave back into such a module.

    Raises:
        RuntimeError: a name is missing, left over, or of another shape.
    """
    first = first_names(module)
    own = own_names(module, list(first))
    again = {
        own[name]: state[own[one]]
        for name, one in first.items()
        if name != one and own[one] in state
    }
    load_own_state(module, state | again)


def first_names(module: nn.Module) -> dict[str, str]:
    """Every name of the state, and the first name that the same tensor has."""
    # As they are, not detached: a copy of a view would have lost who it is.
    own, first = module.state_dict(keep_vars=True), {}
    return {name: first.setdefault(id(tensor), name) for name, tensor in own.items()}
