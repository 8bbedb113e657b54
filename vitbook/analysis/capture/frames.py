"""The module around a call, and whether the call's axes are what it seems."""

import re
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vitbook.analysis.capture.calls import AttentionCall

Length = int | torch.SymInt  # the latter where a trace leaves it open: no set takes it

ATTENTION = re.compile("attn|attention|XCA", re.IGNORECASE)
OF_CHANNELS = re.compile("XCA|Channel|Covariance", re.IGNORECASE)


def kind(module: nn.Module) -> str:
    """The name of its class."""
    return getattr(module, "original_name", type(module).__name__)  # of what is scripted


def called_attention(module: nn.Module) -> bool:
    """Whether a module's class is called an attention: what ought to have been seen if it ran."""
    return ATTENTION.search(kind(module)) is not None


def has_attention(model: nn.Module) -> bool:
    """Whether one of its modules, or itself, is called an attention."""
    return any(map(called_attention, model.modules()))


@dataclass(eq=False)
class Running:
    """A module that runs.

    Attributes:
        input: the first tensor that it was given.
        error: that was being handled when it began.
        seen: whether an attention was seen in it.
        turns: how many were its own.
    """

    path: str
    module: nn.Module
    input: Tensor | None
    error: BaseException | None = None
    seen: bool = False
    turns: int = 0

    @property
    def attends(self) -> bool:
        return called_attention(self.module)

    @property
    def tokens(self) -> tuple[Length, ...]:
        """How many an image, or a window, of its input may have."""
        shape = () if self.input is None else self.input.shape
        if len(shape) == 4:
            return shape[1] * shape[2], shape[2] * shape[3]  # channels last, channels first
        return (shape[1],) if len(shape) == 3 else ()

    def gives_batch(self, lead: Length, parts: dict[str, Tensor]) -> bool:
        """Whether an attention without an axis for heads has one head, and images come first."""
        if self.input is None or self.input.ndim < 3:
            return False
        lengths = [part.shape[-2] for name, part in parts.items() if name != "mask"]
        return bool(lead == self.input.shape[0]) and any(n in self.tokens for n in lengths)

    @property
    def width(self) -> tuple[Length, ...]:
        """Of a token of its input."""
        shape = () if self.input is None else self.input.shape
        return (shape[1], shape[3]) if len(shape) == 4 else tuple(shape[2:])


def mixes_channels(where: Running, call: AttentionCall) -> bool:
    """Between channels, the heads' keys make the width and the tokens lie along the values."""
    (_, heads, *_, queries, keys), width = call.shape, call.v.shape[-1]
    if queries != keys or width not in where.tokens or heads * keys not in where.width:
        return False
    either = keys in where.tokens and heads * width in where.width
    return not either or OF_CHANNELS.search(kind(where.module)) is not None


def out_of_order(where: Running, call: AttentionCall) -> bool:
    """Where each token attends to all, the images come first."""
    # Of a number of images that a trace leaves open, the comparison is no bool yet.
    return call.shape[-1] in where.tokens and bool(call.shape[0] != where.input.shape[0])
