"""See the attention of any model without changing what it computes."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from vitbook.analysis.adapters import ALL, Seen, watch_attention

KNOWN = "vitbook's models, timm's and Hugging Face's ViT, and torch.nn.MultiheadAttention"


@contextmanager
def hooked(
    model: nn.Module, watch: Callable[[str, nn.Module], Iterable[RemovableHandle]]
) -> Iterator[None]:
    """Hooks on the modules of a model, none of which outlives the block.

    Args:
        watch: called with the path of each module and the module; hangs up hooks and returns them.
    """
    with ExitStack() as stack:
        # A warm compiled model would run its compiled code, in which the hooks are not.
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        for path, module in model.named_modules():
            for handle in watch(path.removeprefix("_orig_mod."), module):
                stack.callback(handle.remove)
        yield


@contextmanager
def watched(model: nn.Module, keep: Callable[[str, Seen], None]) -> Iterator[None]:
    """Call ``keep(path, seen)`` for each attention that runs in the block.

    A module that runs again in the block gets ``path#2``, ``path#3``, ...

    Raises:
        RuntimeError: no attention ran in the block, so that there is nothing to look at.
    """
    times: Counter[str] = Counter()

    def count(path: str, seen: Seen) -> None:
        times[path] += 1
        keep(path if times[path] == 1 else f"{path}#{times[path]}", seen)

    with hooked(model, lambda path, module: watch_attention(module, partial(count, path))):
        yield
    if not times:
        raise RuntimeError(
            f"no attention ran in the block for {type(model).__name__}: call the model inside it; "
            f"capture_attention knows {KNOWN}"
        )


@contextmanager
def capture_attention(
    model: nn.Module, reduce: Callable[[Tensor], Any] | None = None
) -> Iterator[dict[str, Any]]:
    """Collect the attention weights of every forward pass in the block.

    ::

        with capture_attention(model) as maps:
            logits = model(images)
        maps["encoder.blocks.0.attention.core"]  # batch heads queries keys

    The model runs as it always does, fused kernels included: hooks recompute the weights from the
    queries and keys that went in, so in eager mode the logits are the same bits as outside. A
    compiled model runs eagerly inside the block. The maps hold no gradient, are float32 at least,
    and are the weights before any dropout. No hook outlives the block.

    Args:
        model: ours, timm's, torchvision's or Hugging Face's.
        reduce: folds each map, "batch heads queries keys", as soon as it is made; what it returns
            is kept instead, so that memory does not grow with depth.

    Yields:
        A dict: path of the attention module -> its map, in the order in which they ran. A module
        that runs again in the block gets ``path#2``, ``path#3``, ...

    Raises:
        RuntimeError: no attention ran in the block, so that there is nothing to look at.
    """
    maps: dict[str, Any] = {}

    @torch.no_grad()
    def keep(path: str, seen: Seen) -> None:
        weights = seen.weights(ALL, ALL)
        maps[path] = weights if reduce is None else reduce(weights)

    with watched(model, keep):
        yield maps
