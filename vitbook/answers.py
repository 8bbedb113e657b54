"""The logits in what a model answers."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn


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
        >>> from vitbook.answers import logits_in
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
