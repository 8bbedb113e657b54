"""See attention where it is computed: at the call, whatever the module around it is called."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from weakref import ReferenceType, ref

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from vitbook.analysis.capture.calls import AttentionCall
from vitbook.analysis.capture.frames import Running, kind, mixes_channels, out_of_order
from vitbook.analysis.capture.hand_written import EINSUM, as_product, holds, is_learned, rows_of

FUSED = F.scaled_dot_product_attention
SOFTMAX = {F.softmax, torch.softmax, torch.special.softmax, Tensor.softmax}
PRODUCTS = {torch.matmul, torch.bmm, Tensor.matmul, Tensor.bmm, Tensor.__matmul__}
OF_TWO_AXES = PRODUCTS | {torch.mm, Tensor.mm}
ADDED = {torch.baddbmm, Tensor.baddbmm}  # their product is of the second and the third
BY_BROADCAST = {torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__}
SCORING = PRODUCTS | ADDED | {torch.einsum}
DROPOUT = {F.dropout, torch.dropout}
TRANSPOSE = {Tensor.transpose, torch.transpose, Tensor.swapaxes, Tensor.mT.__get__}
PERMUTE = {Tensor.permute, torch.permute}
# After these, weights are still weights: each row is over the same keys.
SAME_ROWS = {
    *(Tensor.to, Tensor.type_as, Tensor.type, Tensor.float, Tensor.double, Tensor.half),
    *(Tensor.bfloat16, Tensor.contiguous, Tensor.clone, Tensor.detach, torch.clone),
    *(Tensor.view, Tensor.reshape, torch.reshape, Tensor.flatten, torch.flatten),
    *(Tensor.unflatten, Tensor.squeeze, torch.squeeze, Tensor.unsqueeze, torch.unsqueeze),
    *(Tensor.expand, Tensor.nan_to_num, torch.nan_to_num),
}
# What turns tokens into other tokens: behind it a number is no score of a query and a key.
NO_SCORES = SOFTMAX | {
    *(F.linear, F.conv1d, F.conv2d, F.layer_norm, F.embedding, F.batch_norm, F.group_norm),
}
# Of what was mixed, by their number; w are windows.
AXES = {3: ("(b h)", "n", "d"), 4: ("b", "h", "n", "d"), 5: ("b", "h", "w", "n", "d")}


@dataclass(frozen=True, eq=False)
class Softmax:
    """Weights that the model wrote out, and with which it has mixed nothing yet.

    Attributes:
        result: what the model goes on with: after dropout, a cast or another shape.
        weights: the same before dropout.
        version: of the result; another one later says that it was changed in place.
        origin: the softmax of which this is a form.
    """

    result: Tensor
    weights: Tensor
    version: int | None
    origin: int
    where: Running
    transposed: bool = False


class Interception(TorchFunctionMode):
    """Calls ``keep`` for each attention that is computed while a module of the model runs.

    An attention is a call of ``scaled_dot_product_attention``; or a softmax over the last axis of
    scores, that is of the product of two tensors, whose result is then multiplied with values; or
    any other table of tokens by tokens that is multiplied with tokens. If its rows add to one it is
    the map, however it came about, else the module is missed.

    Attributes:
        running: the modules that run, the outermost first.
        missed: path of each attention that ran and was not seen -> what is known of it.
    """

    def __init__(self, keep: Callable[[AttentionCall], None]):
        super().__init__()
        self.keep = keep
        self.running: list[Running] = []
        self.missed: dict[str, str] = {}
        self._open: list[Softmax] = []
        self._scores: dict[int, ReferenceType[Tensor]] = {}
        self._pairs: dict[int, ReferenceType[Tensor]] = {}  # what came of two activations' product

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = function(*args, **kwargs)
        if self.running:
            # What is computed of a call is no call of the model, for an outer capture neither.
            with torch._C.DisableTorchFunction():
                self._look(function, result, args, kwargs)
        return result

    def _look(self, function: Callable, result: Any, args: tuple, kwargs: dict) -> None:
        if function is FUSED:
            self._fused(result, *args, **kwargs)
        elif function is F.multi_head_attention_forward:
            self.miss(self.running[-1], "calls multi_head_attention_forward by itself")
        elif isinstance(result, Tensor) and result.ndim > 1:
            given = [*args, *kwargs.values()]
            told = len(self.missed), sum(each.turns for each in self.running)
            if result.ndim > 2:
                if function in SOFTMAX:
                    self._softmax(result, *args, **kwargs)
                elif self._open:
                    self._follow(function, result, given)
                self._follow_scores(function, result, given)
            if told == (len(self.missed), sum(each.turns for each in self.running)):
                self._tables(function, result, given)

    def enter(self, module: Running) -> None:
        module.error = sys.exception()
        self.running.append(module)

    def leave(self) -> None:
        """The innermost module ended: weights with which it mixed nothing are none of tokens."""
        ended = self.running.pop()
        if sys.exception() is not ended.error:
            self._open.clear()
            return
        if ended.attends or list(ended.module.children()):  # else maybe a softmax, used outside
            for softmax in [each for each in self._open if _within(ended.path, each.where.path)]:
                self._open.remove(softmax)
                tokens = ended.attends or softmax.weights.shape[-1] in ended.tokens
                if tokens and not softmax.where.seen:
                    self.miss(ended, "changes its weights after the softmax or mixes no tokens")
        told = any(_within(ended.path, path) for path in self.missed)
        if ended.attends and not ended.seen and not told:
            self.miss(ended, "is called an attention, but none was seen in it")

    def see(self, call: AttentionCall) -> None:
        for module in self.running:
            module.seen = True
        self.running[-1].turns += 1
        self.keep(replace(call, turn=self.running[-1].turns - 1))

    def miss(self, where: Running, why: str) -> None:
        self.missed[where.path] = f"{where.path or 'the model'} ({kind(where.module)}) {why}"

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
        if output.ndim not in AXES:
            self.miss(self.running[-1], f"attends over {output.ndim} axes, expected 3 to 5")
        elif not (attn_mask is None or _is_plain(attn_mask)):
            self.miss(self.running[-1], f"has a mask that is a {type(attn_mask).__name__}")
        else:
            mask = None if attn_mask is None else torch.atleast_2d(attn_mask.detach())
            self._mixed(output, AXES[output.ndim], mask=mask, scale=scale, q=q, k=k, v=v)

    def _softmax(self, result: Tensor, input: Tensor, dim: int | None = None, *_, **__) -> None:
        if dim in (-1, input.ndim - 1) and self._is_score(input):
            whole = Softmax(result, result.detach(), _version(result), id(result), self.running[-1])
            self._open.append(whole)

    def _follow(self, function: Callable, result: Tensor, given: list) -> None:
        """What became of weights: the same rows, or a product with values."""
        if function is torch.einsum:
            self._einsum(result, *given)
            return
        softmax = self._opened(given[0]) if given else None
        if function in PRODUCTS and len(given) == 2:
            of_second = self._opened(given[1])
            if softmax and not softmax.transposed:
                self._written(softmax, given[1], result, AXES.get(result.ndim, ()))
            elif of_second and of_second.transposed:
                *lead, tokens, width = AXES.get(result.ndim, ("n", "d"))
                self._written(of_second, given[0].mT, result, (*lead, width, tokens))
        elif softmax and function in DROPOUT:
            self._go_on(softmax, result)
        elif softmax and _turns(function, result, given):
            self._go_on(softmax, result, transposed=not softmax.transposed)
        elif softmax and function in SAME_ROWS and result.shape[-1] == given[0].shape[-1]:
            weights = softmax.weights
            if softmax.weights.shape != result.shape:
                weights = weights.expand_as(result) if function is Tensor.expand else (
                    weights.reshape(result.shape))  # fmt: skip
            self._go_on(softmax, result, weights=weights)

    def _go_on(self, softmax: Softmax, result: Tensor, **changes: Any) -> None:
        self._open.append(replace(softmax, result=result, version=_version(result), **changes))

    def _opened(self, tensor: Any) -> Softmax | None:
        return next((each for each in self._open if each.result is tensor), None)

    def _follow_scores(self, function: Callable, result: Tensor, given: list) -> None:
        """A product is a table of scores, and what is added to it, or divides it, leaves it one."""
        kept = function not in NO_SCORES and any(map(self._is_score, given))
        if function in SCORING or kept:
            number = id(result)
            self._scores[number] = ref(result, lambda _: self._scores.pop(number, None))

    def _is_score(self, tensor: Any) -> bool:
        return holds(self._scores, tensor)

    def _tables(self, function: Callable, result: Tensor, given: list) -> None:
        """Tokens multiplied with a table of tokens by tokens that no softmax led to."""
        operands = given[1:3] if function in ADDED else given[:2]
        if function is torch.einsum:
            operands = as_product(given)
        if function in OF_TWO_AXES | ADDED or (function is torch.einsum and operands):
            table, values = operands
            if self._opened(table) is None and self._is_table(table, values):
                self._mixed_by(table, values, result)
                return
        elif function in BY_BROADCAST and any(
            holds(self._pairs, each) and self._is_table(each.squeeze(-1), other)
            for each, other in (given[:2], given[1::-1])
            if isinstance(each, Tensor) and each.ndim > 3 and each.shape[-1] == 1
        ):
            self.miss(self.running[-1], "mixes its tokens by a product that is summed by itself")
        kept = function not in NO_SCORES and any(holds(self._pairs, each) for each in given)
        of_two = function in SCORING | OF_TWO_AXES and not any(map(is_learned, operands))
        if of_two or kept:
            number = id(result)
            self._pairs[number] = ref(result, lambda _: self._pairs.pop(number, None))

    def _is_table(self, table: Any, values: Any) -> bool:
        """Whether a tensor has a number for each query and key of tokens that run here."""
        if not (isinstance(table, Tensor) and isinstance(values, Tensor)) or table.is_meta:
            return False
        if table.ndim < 2 or values.ndim < 2 or not table.is_floating_point():
            return False
        queries, keys = table.shape[-2:]
        lengths = {length for module in self.running for length in module.tokens}
        if keys != values.shape[-2] or keys < 2 or not {queries, keys} <= lengths:
            return False
        if holds(self._pairs, table):
            return True
        # Out of sight of this mode, as in an operator of aten or in numpy.
        return queries == keys and table.ndim > 2 and rows_of(table) == "weights"

    def _mixed_by(self, table: Tensor, values: Tensor, result: Tensor) -> None:
        if rows_of(table) == "others":
            self.miss(self.running[-1], "mixes its tokens by a table whose rows do not add to one")
        elif result.ndim not in AXES:
            self.miss(self.running[-1], f"attends over {result.ndim} axes, expected 3 to 5")
        else:
            self._mixed(result, AXES[result.ndim], written=table.detach(), v=values.detach())

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
        if _version(softmax.result) != softmax.version:
            self.miss(self.running[-1], "changes its weights in place after the softmax")
        else:
            self._mixed(output, axes, written=softmax.weights, v=v.detach())

    def _mixed(self, output: Tensor, axes: tuple[str, ...], **parts: Any) -> None:
        # The layer that projects, and not a leaf that is given its queries.
        layers = [each for each in self.running if each.attends and list(each.module.children())]
        where = layers[-1] if layers else self.running[-1]
        for each in self.running:
            if why := getattr(each.module, "no_map", ""):  # a planted fault knows it of itself
                self.miss(self.running[-1], why)
                return
        tensors = {name: part for name, part in parts.items() if isinstance(part, Tensor)}
        if output.ndim == 3 and not where.gives_batch(output.shape[0], tensors):
            self.miss(where, "folds its heads into the batch in an order that is not known")
            return
        if output.ndim == 3:
            tensors = {name: part.unsqueeze(-3) for name, part in tensors.items()}
        mask = tensors.pop("mask", None)
        lead = torch.broadcast_shapes(*(part.shape[:-2] for part in tensors.values()))
        tensors = {name: part.expand(*lead, -1, -1) for name, part in tensors.items()}
        parts |= tensors | ({} if mask is None else {"mask": mask})
        call = AttentionCall(self.running[-1].path, output=output, layout=" ".join(axes), **parts)
        if mixes_channels(where, call):
            self.miss(where, "mixes channels and not tokens")
        elif where.attends and where.input is not None and out_of_order(where, call):
            self.miss(where, "has its axes in an order that is not known")
        else:
            self.see(call)


def _version(tensor: Tensor) -> int | None:
    return None if tensor.is_inference() else tensor._version


def _turns(function: Callable, result: Tensor, given: list) -> bool:
    """Whether this only swaps the last two axes."""
    if function in TRANSPOSE:
        return result.shape == given[0].mT.shape
    if function not in PERMUTE:
        return False
    axes = given[1] if len(given) == 2 else given[1:]
    last = result.ndim - 1
    return [axis % result.ndim for axis in axes] == [*range(last - 1), last, last - 1]


def _within(path: str, inner: str) -> bool:
    return f"{inner}.".startswith(f"{path}.") if path else True


def _is_plain(mask: Tensor) -> bool:
    """Whether it is numbers, and no subclass that only stands for some; a traced one is."""
    return torch.compiler.is_compiling() or type(mask) in (Tensor, nn.Parameter)
