"""What the layers of a model give out, by path."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from vitbook.analysis.capture.record import record_modules
from vitbook.analysis.capture.running import as_model_takes, takes_images
from vitbook.blocks import LAST, find_layer
from vitbook.model_utilities import evaluating, unwrapped


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
def layer_tokens(
    model: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    layer: str | int | None = None,
) -> Float[Tensor, "batch tokens numbers"]:
    """Tokens behind a layer, prefix first, each brought to mean 0 and variance 1.

    A block adds to what it reads, and later blocks have larger tokens; the model's own last norm,
    whose gain was learned behind the last block, would not fit the others. The model runs once, as
    it stands: in its own mode, with or without gradients.

    Args:
        images: normalised as the model takes them.
        layer: the path of a block (:func:`list_blocks`) or of another module, or a block's index;
            by default the block three quarters up (:func:`.find_layer`). "last" asks for what the
            model's head reads, the tokens after the last norm with its gain: of ours, of timm's,
            of a bare model of Hugging Face.

    Raises:
        ValueError: no blocks, or a layer that gives no tokens.
        UnknownNameError: a layer that is not there; names those that are.
        RuntimeError: a layer that did not run.
    """
    if layer == LAST:
        images, body = as_model_takes(model, images), unwrapped(model)
        read = getattr(body, "features", None) or getattr(body, "forward_features", None)
        found = read(images) if callable(read) else _after_last_norm(body, images)
        if not isinstance(found, Tensor) or found.ndim != 3:
            raise ValueError(f"{type(model).__name__} has no tokens after its last norm to show")
        return found
    path = find_layer(model, layer)
    with capture_outputs(model, (path,), lambda _, output: output) as outputs:
        model(as_model_takes(model, images))
    if path not in outputs:
        raise RuntimeError(f"layer {path} of {type(model).__name__} did not run")
    found = outputs[path]
    if not isinstance(found, Tensor) or found.ndim != 3:
        came = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise ValueError(
            f"{path} gives {came}: expected tokens, (images, tokens, numbers); of maps ask "
            "feature_maps"
        )
    return F.layer_norm(found, found.shape[-1:])


def _after_last_norm(model: nn.Module, images: Tensor) -> Any:
    """The last hidden state of Hugging Face, if it is what a norm gave; some leave that out."""
    normed: list[Any] = []

    def watch(path: str, module: nn.Module) -> Iterator[RemovableHandle]:
        if "norm" in type(module).__name__.lower():
            yield module.register_forward_hook(lambda ran, args, output: normed.append(output))

    with record_modules(model, watch):
        found = getattr(model(images), "last_hidden_state", None)
    return found if any(found is each for each in normed) else None
