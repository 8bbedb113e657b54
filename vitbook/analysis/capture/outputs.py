"""What the layers of a model give out, by path."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from vitbook.analysis.capture.record import record_modules
from vitbook.analysis.capture.running import as_model_takes, takes_images
from vitbook.errors import UnknownNameError
from vitbook.model_utilities import evaluating


def list_blocks(model: nn.Module) -> tuple[str, ...]:
    """Paths of the blocks that a model stacks, in its own order.

    A block stands in a list or a sequence, has parts that learn, and holds no further stack: the
    blocks of every library's Transformer, and of a residual network.
    """
    stacks = (nn.ModuleList, nn.Sequential)
    found = [
        f"{path}.{name}".removeprefix("_orig_mod").removeprefix(".")
        for path, module in model.named_modules()
        if isinstance(module, stacks)
        for name, part in module.named_children()
        if not isinstance(part, stacks)
        and any(list(child.parameters()) for child in part.children())
    ]
    return tuple(p for p in found if not any(q.startswith(f"{p}.") for q in found))


def check_layers(model: nn.Module, layers: tuple[str, ...]) -> None:
    """Refuse a list of layers that is empty, or has a name that is not in the model.

    Raises:
        ValueError: no layers.
        UnknownNameError: a path that leads to no module; names the nearest.
    """
    if not layers:
        raise ValueError(
            f"no layers found in {type(model).__name__}: expected blocks in a ModuleList or a "
            "Sequential; pass layers= with paths of model.named_modules()"
        )
    known = {path.removeprefix("_orig_mod.") for path, _ in model.named_modules()} - {""}
    for layer in layers:
        if layer not in known:
            near = get_close_matches(layer, known, cutoff=0.5)
            raise UnknownNameError("layer", layer, known if near else list_blocks(model) or known)


def first_of(output: Any) -> Any:
    """What a module gives, without what some libraries' blocks give beside it."""
    return output[0] if isinstance(output, tuple) else output


@contextmanager
def capture_outputs(
    model: nn.Module, layers: tuple[str, ...], keep: Callable[[str, Tensor], Any]
) -> Iterator[dict[str, Any]]:
    """What ``keep(layer, output)`` makes of each layer's output in the block, in the order run.

    A module that runs again keeps what came last. Of an output with several parts the first counts.
    """
    outputs: dict[str, Any] = {}

    def after(path: str, module: nn.Module, args: tuple, output: Any) -> None:
        outputs[path] = keep(path, first_of(output))

    def watch(path: str, module: nn.Module) -> Iterator[RemovableHandle]:
        if path in layers:
            yield module.register_forward_hook(partial(after, path))

    with record_modules(model, watch):
        yield outputs


@torch.no_grad()
def outputs_of(
    model: nn.Module,
    images: Tensor,
    layers: tuple[str, ...],
    keep: Callable[[str, Tensor], Any],
) -> dict[str, Any]:
    """:func:`capture_outputs` of one batch, in evaluation mode and without gradients.

    Raises:
        RuntimeError: a layer did not run.
    """

    def keep_now(layer: str, output: Tensor) -> Any:
        return keep(layer, output.clone())  # a ReLU in place would still change what was kept

    with evaluating(model), capture_outputs(model, layers, keep_now) as outputs:
        model(as_model_takes(model, images))
    if missing := [layer for layer in layers if layer not in outputs]:
        raise RuntimeError(
            f"layer {missing[0]} of {type(model).__name__} did not run: expected one that its "
            "forward pass calls"
        )
    return outputs


@takes_images()
def last_tokens(
    model: nn.Module, images: Float[Tensor, "batch channels height width"]
) -> Float[Tensor, "batch tokens numbers"]:
    """Tokens after the last norm, prefix first: of ours, of timm's, of a bare one of Hugging Face.

    The model runs once, as it stands: in its own mode, with or without gradients.

    Args:
        images: normalised as the model takes them.

    Raises:
        ValueError: the model gives no such tokens.
    """
    read = getattr(model, "features", None) or getattr(model, "forward_features", None)
    # What else a model answers are no tokens.
    found = read(images) if callable(read) else getattr(model(images), "last_hidden_state", None)
    if not isinstance(found, Tensor) or found.ndim != 3:
        raise ValueError(f"{type(model).__name__} has no tokens after its last norm to show")
    return found
