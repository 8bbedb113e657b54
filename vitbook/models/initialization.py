"""First weights by name."""

from torch import nn

from vitbook.errors import UnknownNameError
from vitbook.layers import xavier_uniform_

INITIALIZATIONS = {"xavier": xavier_uniform_}


def initialize(model: nn.Module, name: str) -> None:
    """Draw the first weights of ``model`` anew, in place.

    Args:
        name: one of :data:`INITIALIZATIONS`.

    Raises:
        UnknownNameError: no such way; names the nearest.
    """
    if name not in INITIALIZATIONS:
        raise UnknownNameError("initialization", name, INITIALIZATIONS)
    INITIALIZATIONS[name](model)
