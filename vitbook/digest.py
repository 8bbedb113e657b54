"""A digest of tensors, by which a changed bit is noticed."""

import hashlib
import json
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from vitbook.wrappers import own_state


def digest(tensors: Mapping[str, Tensor], about: Mapping[str, str] | None = None) -> str:
    """SHA-256 of the names, dtypes, shapes and bytes of all tensors, and of words about them.

    Args:
        tensors: contiguous, on the CPU.
    """
    total = hashlib.sha256(json.dumps(about, sort_keys=True).encode() if about else b"")
    for name, tensor in sorted(tensors.items()):
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\0".encode())
        total.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


def weights_digest(model: nn.Module) -> str:
    """:func:`digest` of a model's state, wherever it runs and whatever wraps it.

    Raises:
        TypeError: a part of the state that has no bytes of its own: a quantized or sparse weight,
            one on meta, or what is no tensor.
    """
    state = own_state(model)
    for name, value in state.items():
        plain = isinstance(value, Tensor) and type(value.data) is Tensor
        if not plain or value.is_meta or value.layout != torch.strided:
            kind = type(value.data if isinstance(value, Tensor) else value).__name__
            where = f", {value.layout} on {value.device}" if plain else ""
            raise TypeError(
                f"{name} of this {type(model).__name__} is a {kind}{where}: expected a plain "
                "tensor, whose bytes tell the weights from others; give the model as it was before"
            )
    return digest({name: value.cpu().contiguous() for name, value in state.items()})
