"""See the attention of any model without changing what it computes."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from vitbook.analysis.capture.adapters import Adapter, adapter_of
from vitbook.analysis.capture.calls import AttentionCall
from vitbook.analysis.capture.frames import Running
from vitbook.analysis.capture.interception import Interception

# What is looked into, by which thread, how often: two threads would mix what they record.
_recorded: WeakKeyDictionary[nn.Module, tuple[int, int]] = WeakKeyDictionary()
_lock = threading.RLock()
_eager = ExitStack()


@contextmanager
def record_modules(
    model: nn.Module, watch: Callable[[str, nn.Module], Iterable[RemovableHandle]]
) -> Iterator[None]:
    """Hooks on the modules of a model, none of which outlives the block.

    Args:
        watch: called with the path of each module and the module; hangs up hooks and returns them.

    Raises:
        RuntimeError: another thread looks into the model.
    """
    with ExitStack() as stack:
        stack.enter_context(claim(model))
        for path, module in model.named_modules():
            for handle in watch(path.removeprefix("_orig_mod.").removeprefix("_orig_mod"), module):
                stack.callback(handle.remove)
        yield


@contextmanager
def record_attention(model: nn.Module, keep: Callable[[AttentionCall], None]) -> Iterator[None]:
    """Call ``keep`` with each attention that runs in the block, in the thread that opened it.

    A module that attends again in the block gets the path ``path#2``, ``path#3``, ...

    Raises:
        RuntimeError: no attention ran in the block, or one that cannot be seen.
    """
    times: Counter[str] = Counter()
    failures: list[BaseException] = []

    def count(call: AttentionCall) -> None:
        times[call.path] += 1
        often = times[call.path]
        try:
            keep(call if often == 1 else replace(call, path=f"{call.path}#{often}"))
        except BaseException as error:
            failures.append(error)
            raise

    calls, here = Interception(count), threading.get_ident()
    muted, closed = [], False

    def before(
        path: str, adapter: Adapter | None, module: nn.Module, args: tuple, kwargs: dict
    ) -> None:
        if closed or _recomputes():  # a module that was copied alone has copies of these hooks
            return
        if threading.get_ident() != here:
            if calls.running:
                calls.miss(calls.running[-1], "runs a part of itself in another thread")
            return
        given = (*args, *kwargs.values())
        calls.enter(Running(path, module, next((x for x in given if isinstance(x, Tensor)), None)))
        if adapter:  # what it does inside is no business of the interception
            muted.append(torch._C.DisableTorchFunction())
            muted[-1].__enter__()

    def after(
        path: str,
        adapter: Adapter | None,
        module: nn.Module,
        args: tuple,
        kwargs: dict,
        output: Any,
    ) -> None:
        if closed or threading.get_ident() != here or _recomputes():
            return
        try:
            if adapter and output is not None:  # None: it failed
                calls.see(adapter(path, module, args, kwargs, output))
        finally:
            if adapter:
                muted.pop().__exit__(None, None, None)
            calls.leave()

    def watch(path: str, module: nn.Module) -> Iterator[RemovableHandle]:
        _refuse_sealed(path, module)
        adapter = adapter_of(module)
        yield module.register_forward_pre_hook(
            _Hook(partial(before, path, adapter)), with_kwargs=True, prepend=True
        )
        yield module.register_forward_hook(
            _Hook(partial(after, path, adapter)), with_kwargs=True, always_call=True, prepend=True
        )

    try:
        with record_modules(model, watch):
            calls.__enter__()
            yield
    finally:
        closed = True
        while muted:  # Ctrl-C calls no hooks
            muted.pop().__exit__(None, None, None)
        _take_away(calls, here)
    if failures:
        raise RuntimeError(f"the model went on after an error in the capture: {failures[0]!r}")
    _check_complete(type(model).__name__, len(times), list(calls.missed.values()))


@contextmanager
def capture_attention(
    model: nn.Module, reduce: Callable[[Tensor], Any] | None = None
) -> Iterator[dict[str, Any]]:
    """Collect the attention weights of every forward pass in the block.

    The model runs as it always does, fused kernels included: the weights are made anew from the
    queries and keys that went in, or taken where the model writes them out itself. In eager mode
    the logits are the same bits as outside; a compiled model runs eagerly inside the block, and so
    does torch's own ``TransformerEncoderLayer``. The maps hold no gradient, are float32 at least
    (also under autocast), and are the weights before any dropout. No hook outlives the block.

    Args:
        model: any whose attention is ``scaled_dot_product_attention``, ``nn.MultiheadAttention``,
            or a softmax whose result is multiplied with values; also a part of a model.
        reduce: folds each map, "batch heads queries keys", as soon as it is made; what it returns
            is kept instead, so that memory does not grow with depth.

    Yields:
        A dict: path of the module that attends -> its map, in the order in which they ran. A
        module that attends again in the block gets ``path#2``, ``path#3``, ... A model that
        attends in windows has them in the batch or as an axis after the heads.

    Raises:
        RuntimeError: no attention ran in the block; an attention ran whose map cannot be read (the
            message names it and the reason); another thread is capturing from the same model, or
            ends this capture.

    Example:
        >>> import torch
        >>> import vitbook
        >>> from vitbook.analysis import capture_attention
        >>> model = vitbook.create_model("vit_micro_patch2_8")
        >>> images = torch.rand(2, 1, 8, 8)
        >>> with capture_attention(model) as maps:
        ...     logits = model(images)
        >>> tuple(maps["encoder.blocks.0.attention.core"].shape)  # batch, heads, queries, keys
        (2, 4, 17, 17)
        >>> with capture_attention(model, reduce=lambda map: map.mean(1)) as maps:
        ...     logits = model(images)
        >>> len(maps), tuple(maps["encoder.blocks.3.attention.core"].shape)
        (4, (2, 17, 17))
    """
    maps: dict[str, Any] = {}

    @torch.no_grad()
    def keep(call: AttentionCall) -> None:
        weights = call.weights()
        if reduce is None and call.written is not None:
            weights = weights.clone()  # else the model's own, which it may change later
        maps[call.path] = weights if reduce is None else reduce(weights)

    with record_attention(model, keep):
        yield maps


@contextmanager
def claim(model: nn.Module) -> Iterator[None]:
    """The model is this thread's to look into, and eager: compiled code runs no hooks."""
    modules, here = list(model.modules()), threading.get_ident()
    with _lock:
        if any(_recorded.get(module, (here, 0))[0] != here for module in modules):
            raise RuntimeError(
                f"another thread looks into this {type(model).__name__}: wait for it, or give "
                "each thread a copy (copy.deepcopy)"
            )
        if not _recorded:
            _eager.enter_context(torch.compiler.set_stance("force_eager"))
        for module in modules:
            _recorded[module] = (here, _recorded.get(module, (here, 0))[1] + 1)
    try:
        yield
    finally:
        with _lock:
            for module in modules:
                _, times = _recorded.pop(module)
                if times > 1:
                    _recorded[module] = (here, times - 1)
            if not _recorded:
                _eager.close()


class _Hook:
    """A hook of this block: what is copied or saved in it takes none along."""

    def __init__(self, look: Callable):
        self.look = look

    def __call__(self, *args: Any) -> None:
        self.look(*args)

    def __reduce__(self) -> tuple:
        return _Gone, ()


class _Gone:
    def __call__(self, *_: Any) -> None:
        pass


def _recomputes() -> bool:
    """Whether a backward pass runs: checkpointing then runs again what was seen already."""
    return torch._C._current_graph_task_id() != -1


def _take_away(calls: Interception, thread: int) -> None:
    """End the interception, also where captures that began later have not ended yet."""
    if threading.get_ident() != thread:
        raise RuntimeError(
            "this capture began in another thread, and is ended here: expected a with block that "
            "ends in the thread in which it began"
        )
    later = []
    while calls in torch.overrides._get_current_function_mode_stack():
        mode = torch.overrides._pop_mode()
        if mode is not calls:
            later.append(mode)
    for mode in reversed(later):
        torch.overrides._push_mode(mode)


def _refuse_sealed(path: str, module: nn.Module) -> None:
    """Compiled and exported code calls no function that can be intercepted, and takes no hooks."""
    code = ""
    if isinstance(module, torch.jit.ScriptModule) and hasattr(module, "inlined_graph"):
        code = str(module.inlined_graph)
    elif isinstance(module, torch.fx.GraphModule) and "torch.ops.aten" in module.code:
        code = module.code
    if "scaled_dot_product" in code or "softmax" in code:
        raise RuntimeError(
            f"{path or 'the model'} is scripted, traced or exported, and attends inside, where "
            "nothing can be seen: capture the model as it was before"
        )


def _check_complete(name: str, seen: int, missed: list[str]) -> None:
    if missed:
        more = f", and {len(missed) - 3} more" if len(missed) > 3 else ""
        raise RuntimeError(
            f"{seen} attentions of {name} were seen, but {len(missed)} that ran have no map: "
            f"{'; '.join(missed[:3])}{more}. Capture a part of the model that has none of these"
        )
    if not seen:
        raise RuntimeError(
            f"no attention ran in the block for {name}: call the model inside it; known are "
            "scaled_dot_product_attention, nn.MultiheadAttention, and a softmax over the last "
            "axis times values"
        )
