"""What many rooms ask of a model: its mode, its own names, its logits, a digest of its weights."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel

COMPILED = "_orig_mod"  # what torch.compile calls the module that it was given
AROUND = "module"  # what the others call theirs


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode; after the block every part is in the mode in which it came."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def faults_of(model: nn.Module) -> tuple[str, ...]:
    """Mistakes that were planted into parts of a model on purpose: each part says its ``fault``."""
    return tuple(sorted({part.fault for part in model.modules() if hasattr(part, "fault")}))


def logits_in(answer: Any, model: nn.Module) -> Tensor:
    """A model's logits, out of what they are wrapped in.

    A tensor is taken as it is; of a dict or an object, as Hugging Face's, what it calls
    ``logits``, or the one tensor in a dict; of a tuple or a list the first, if that is "batch
    classes".

    Raises:
        ValueError: none of these.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from vitbook.model_utilities import logits_in
        >>> logits_in({"logits": torch.ones(2, 10), "loss": None}, nn.Identity()).shape
        torch.Size([2, 10])
    """
    if isinstance(answer, Tensor):
        return answer
    fields = answer if isinstance(answer, Mapping) else {}
    named = fields.get("logits", getattr(answer, "logits", None))
    if isinstance(named, Tensor):
        return named
    tensors = [field for field in fields.values() if isinstance(field, Tensor)]
    if len(tensors) == 1:
        return tensors[0]
    if isinstance(answer, tuple | list) and answer:
        first = answer[0]
        if isinstance(first, Tensor) and first.ndim == 2:
            return first
    holds = f" of {', '.join(map(str, fields)) or 'nothing'}" if isinstance(answer, Mapping) else ""
    raise ValueError(
        f"{type(model).__name__} gave {type(answer).__name__}{holds}, no tensor, with none called "
        "logits and none first in a tuple: expected (batch, classes)"
    )


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
        >>> from vitbook.model_utilities import own_names
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
