"""See attention where it is computed: at the call, whatever the module around it is called."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from vitbook.analysis.calls import AttentionCall

SOFTMAX = {F.softmax, torch.softmax, Tensor.softmax}
PRODUCTS = {torch.matmul, torch.bmm, Tensor.matmul, Tensor.bmm, Tensor.__matmul__}
DROPOUT = {F.dropout, torch.dropout}
TRANSPOSE = {Tensor.transpose, torch.transpose, Tensor.swapaxes, Tensor.mT.__get__}
# After these, weights are still weights: each row is over the same keys.
SAME_ROWS = {
    *(Tensor.to, Tensor.type_as, Tensor.type, Tensor.float, Tensor.half, Tensor.bfloat16),
    *(Tensor.contiguous, Tensor.clone, Tensor.detach, Tensor.view, Tensor.reshape),
    *(Tensor.flatten, Tensor.unflatten, Tensor.squeeze, Tensor.unsqueeze, torch.reshape),
}
EINSUM = re.compile(r"(\w{3,}),(\w{3,})->(\w{3,})")
ATTENTION = re.compile("attn|attention|XCA", re.IGNORECASE)
OF_CHANNELS = re.compile("XCA|Channel|Covariance", re.IGNORECASE)
# Of what was mixed, by their number; w are windows.
AXES = {3: ("(b h)", "n", "d"), 4: ("b", "h", "n", "d"), 5: ("b", "h", "w", "n", "d")}


def kind(module: nn.Module) -> str:
    """The name of its class."""
    return getattr(module, "original_name", type(module).__name__)  # of what is scripted


def called_attention(module: nn.Module) -> bool:
    """Whether a module's class is called an attention: what ought to have been seen if it ran."""
    return ATTENTION.search(kind(module)) is not None


@dataclass(frozen=True)
class Running:
    """A module that runs, and the first tensor that it was given."""

    path: str
    module: nn.Module
    input: Tensor | None

    @property
    def attends(self) -> bool:
        return called_attention(self.module)

    @property
    def tokens(self) -> set[int]:
        """How many an image, or a window, of its input may have."""
        shape = () if self.input is None else self.input.shape
        if len(shape) == 4:
            return {shape[1] * shape[2], shape[2] * shape[3]}  # channels last, channels first
        return {shape[1]} if len(shape) == 3 else set()

    @property
    def width(self) -> set[int]:
        """Of a token of its input."""
        shape = () if self.input is None else self.input.shape
        return {shape[1], shape[3]} if len(shape) == 4 else set(shape[2:])


@dataclass(frozen=True, eq=False)
class Softmax:
    """Weights that the model wrote out, and with which it has mixed nothing yet.

    Attributes:
        result: what the model goes on with: after dropout, a cast or another shape.
        weights: the same before dropout.
        origin: the softmax of which this is a form.
    """

    result: Tensor
    weights: Tensor
    origin: int
    where: Running
    transposed: bool = False


class Interception(TorchFunctionMode):
    """Calls ``keep`` for each attention that is computed while a module of the model runs.

    An attention is a call of ``scaled_dot_product_attention``, or a softmax over the last axis
    whose result is then multiplied with values.

    Attributes:
        running: the modules that run, the outermost first.
        missed: path of each attention that ran and was not seen -> what is known of it.
    """

    def __init__(self, keep: Callable[[AttentionCall], None]):
        super().__init__()
        self.keep = keep
        self.running: list[Running] = []
        self.missed: dict[str, str] = {}
        self._seen: set[str] = set()
        self._open: list[Softmax] = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = function(*args, **kwargs)
        if self.running:
            # What is computed of a call is no call of the model, for an outer capture neither.
            with torch._C.DisableTorchFunction():
                if function is F.scaled_dot_product_attention:
                    self._fused(result, *args, **kwargs)
                elif function in SOFTMAX:
                    self._softmax(result, *args, **kwargs)
                elif self._open and isinstance(result, Tensor):
                    self._follow(function, result, args, kwargs)
        return result

    def enter(self, module: Running) -> None:
        self.running.append(module)

    def leave(self, *, failed: bool = False) -> None:
        """The innermost module ended: weights with which it mixed nothing are none of tokens."""
        ended = self.running.pop()
        if failed:
            self._open.clear()
            return
        if ended.attends or list(ended.module.children()):  # else maybe a softmax, used outside
            for softmax in [each for each in self._open if _within(ended.path, each.where.path)]:
                self._open.remove(softmax)
                if ended.attends or softmax.weights.shape[-1] in ended.tokens:
                    self._miss(ended, "changes its weights after the softmax or mixes no tokens")
        if (
            ended.attends
            and ended.path not in self._seen
            and not any(_within(ended.path, path) for path in self.missed)
        ):
            self._miss(ended, "computes its attention in a way that is not known here")

    def see(self, call: AttentionCall) -> None:
        self._seen.update(each.path for each in self.running)
        self.keep(call)

    def _miss(self, where: Running, why: str) -> None:
        self.missed[where.path] = f"{where.path or 'it'} ({kind(where.module)}) {why}"

    def _fused(
        self,
        output: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> None:
        q, k, v = query.detach(), key.detach(), value.detach()
        if enable_gqa:
            k, v = (each.repeat_interleave(q.shape[-3] // each.shape[-3], -3) for each in (k, v))
        if is_causal:
            ones = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device)
            attn_mask = ones.tril()
        self._mixed(output, AXES.get(output.ndim, ()), mask=attn_mask, scale=scale, q=q, k=k, v=v)

    def _softmax(self, result: Tensor, input: Tensor, dim: int | None = None, *_, **__) -> None:
        if input.ndim > 2 and dim in (-1, input.ndim - 1):
            self._open.append(Softmax(result, result.detach(), id(result), self.running[-1]))

    def _follow(self, function: Any, result: Tensor, args: tuple, kwargs: dict) -> None:
        """What became of weights: the same rows, or a product with values."""
        if function is torch.einsum:
            self._einsum(result, *args)
            return
        softmax = self._opened(args[0])
        if function in PRODUCTS and len(args) == 2:
            of_second = self._opened(args[1])
            if softmax and not softmax.transposed:
                self._written(softmax, args[1], result, AXES.get(result.ndim, ()))
            elif of_second and of_second.transposed:
                *lead, tokens, width = AXES.get(result.ndim, ("n", "d"))
                self._written(of_second, args[0].mT, result, (*lead, width, tokens))
        elif softmax and function in DROPOUT:
            self._open.append(replace(softmax, result=result))
        elif softmax and function in TRANSPOSE and result.shape == args[0].mT.shape:
            self._open.append(replace(softmax, result=result, transposed=not softmax.transposed))
        elif softmax and function in SAME_ROWS and result.shape[-1] == args[0].shape[-1]:
            weights = function(softmax.weights, *args[1:], **kwargs)
            self._open.append(replace(softmax, result=result, weights=weights))

    def _opened(self, tensor: Any) -> Softmax | None:
        return next((each for each in self._open if each.result is tensor), None)

    def _einsum(self, result: Tensor, equation: Any, *operands: Any) -> None:
        """Weights times values, whatever the order of the axes."""
        found = EINSUM.fullmatch(str(equation).replace(" ", ""))
        if found is None or len(operands) != 2 or result.ndim not in AXES:
            return
        for one, other in ((0, 1), (1, 0)):
            softmax, mixed = self._opened(operands[one]), found[3]
            *lead, query, key = found[one + 1]
            width = "".join(set(found[other + 1]) - {*lead, query, key})
            fits = set(found[other + 1]) == {*lead, key, width} and len(width) == 1
            if softmax and fits and set(mixed) == {*lead, query, width}:
                names = dict(zip([*lead, query, width], AXES[result.ndim], strict=True))
                order = " ".join(found[other + 1]), " ".join([*lead, key, width])
                values = rearrange(operands[other], " -> ".join(order))
                self._written(softmax, values, result, tuple(names[axis] for axis in mixed))
                return

    def _written(self, softmax: Softmax, v: Tensor, output: Tensor, axes: tuple[str, ...]) -> None:
        self._open = [each for each in self._open if each.origin != softmax.origin]
        self._mixed(output, axes, written=softmax.weights, v=v.detach())

    def _mixed(self, output: Tensor, axes: tuple[str, ...], **parts: Any) -> None:
        # The layer that projects, and not a leaf that is given its queries.
        layers = [each for each in self.running if each.attends and list(each.module.children())]
        where = layers[-1] if layers else self.running[-1]
        if output.ndim == 3:
            parts = {name: _with_heads(part, where.input) for name, part in parts.items()}
        call = AttentionCall(self.running[-1].path, output=output, layout=" ".join(axes), **parts)
        if len(call.shape) < 4:
            return  # no batch of heads
        if _mixes_channels(where, call):
            self._miss(where, "mixes channels and not tokens")
        else:
            self.see(call)


def _within(path: str, inner: str) -> bool:
    return f"{inner}.".startswith(f"{path}.") if path else True


def _with_heads(part: Any, images: Tensor | None) -> Any:
    """Heads that were folded into the batch, unfolded."""
    if not isinstance(part, Tensor) or part.ndim != 3 or len(part) == 1:
        return part
    fits = images is not None and len(part) % len(images) == 0
    return part.unflatten(0, (len(images) if fits else len(part), -1))


def _mixes_channels(where: Running, call: AttentionCall) -> bool:
    """Between channels, the heads' keys make the width and the tokens lie along the values."""
    (_, heads, *_, queries, keys), width = call.shape, call.v.shape[-1]
    if queries != keys or width not in where.tokens or heads * keys not in where.width:
        return False
    either = keys in where.tokens and heads * width in where.width
    return not either or OF_CHANNELS.search(kind(where.module)) is not None
