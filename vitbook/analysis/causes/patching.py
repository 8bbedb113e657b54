"""Activation patching: parts of one image's forward pass in that of another."""

from collections.abc import Iterable, Iterator
from operator import index

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from vitbook.analysis.capture.mixing import mixing_layers
from vitbook.analysis.capture.record import record_modules
from vitbook.analysis.capture.running import (
    as_model_takes,
    check_images,
    logits_of,
    takes_images,
)
from vitbook.blocks import find_layers
from vitbook.model_utilities import evaluating


@takes_images()
@torch.no_grad()
def patched_logits(
    model: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    others: Float[Tensor, "_batch _channels _height _width"],
    part: str | tuple[int, int],
    tokens: Iterable[int] | Tensor | None = None,
) -> Float[Tensor, "batch classes"]:
    """Logits of ``images`` after a part of the model has answered as it does for ``others``.

    A part was needed for an answer that is lost so (noising). It was enough for the answer of
    ``others`` if that comes (denoising). Meng et al. 2022 ("Locating and editing factual
    associations in GPT", section 2); Zhang and Nanda 2024 ("Towards best practices of activation
    patching").

    Args:
        images: normalised as the model takes them.
        others: as many, of the same size.
        part: the path of a module, a block, an attention or an MLP, with tokens along its second
            dimension; or (layer, head), both counted from 0, of ours or timm's. One that
            runs several times is exchanged each time.
        tokens: which, counted from 0, prefix tokens first; by default all.

    Raises:
        TypeError: a part or tokens that are told in another way.
        ValueError: images of two shapes, or with NaN; no such token, layer or head; a part without
            tokens, or some tokens of a part that has them in windows or on a grid.
        UnknownNameError: no such module; names the nearest.
        RuntimeError: the part did not run, or another thread looks into the model.

    Example:
        >>> import torch, vitbook
        >>> from vitbook.analysis import patched_logits
        >>> model = vitbook.create_model("vit_micro_patch2_8")
        >>> one, other = torch.rand(2, 1, 1, 8, 8)
        >>> tuple(patched_logits(model, one, other, "encoder.blocks.2", tokens=[3, 4]).shape)
        (1, 10)
    """
    try:
        check_images(others)
    except (TypeError, ValueError) as error:
        raise type(error)(f"others: {error}") from None
    if others.shape != images.shape:
        raise ValueError(
            f"images of shape {tuple(images.shape)} and others of {tuple(others.shape)}: expected "
            "as many of the same size"
        )
    module, columns, before = _place(model, part)
    chosen = None if tokens is None else _whole(tokens)
    kept: list[Tensor] = []  # of each time that it runs
    still: Iterator[Tensor] | None = None

    def exchange(found: Tensor) -> Tensor:
        if not isinstance(found, Tensor) or found.ndim < 3:
            raise ValueError(f"{part} gives no tokens: expected a block, an attention or an MLP")
        if chosen is not None and (found.ndim != 3 or len(found) != len(images)):
            raise ValueError(
                f"{part} gives {tuple(found.shape)}: expected (images, tokens, numbers) to choose "
                "tokens of; leave tokens= out, or take a part that has them in a row"
            )
        rows = _rows(chosen, found.shape[1])
        if still is None:
            kept.append(found.clone())
            return found
        if (other := next(still, None)) is None:
            raise RuntimeError(f"{part} ran {len(kept)} times for others, and more for images")
        mixed = found.clone()
        mixed[:, rows, ..., columns] = other[:, rows, ..., columns]
        return mixed

    def after(_: nn.Module, args: tuple, output: Tensor | tuple) -> Tensor | tuple:
        if isinstance(output, tuple):
            return exchange(output[0]), *output[1:]
        return exchange(output)

    def watch(_: str, each: nn.Module) -> Iterator[RemovableHandle]:
        if each is module and before:
            yield each.register_forward_pre_hook(lambda _, args: (exchange(args[0]), *args[1:]))
        elif each is module:
            yield each.register_forward_hook(after)

    answer = logits_of(model)
    with evaluating(model), record_modules(model, watch):
        answer(as_model_takes(model, others))
        if not kept:
            raise RuntimeError(f"{part} of {type(model).__name__} did not run")
        still = iter(kept)
        return answer(as_model_takes(model, images))


def _place(model: nn.Module, part: str | tuple[int, int]) -> tuple[nn.Module, slice, bool]:
    """The module whose output, or input if the third says so, is exchanged in these columns."""
    if isinstance(part, str):
        find_layers(model, [part])
        paths = ((path.removeprefix("_orig_mod."), found) for path, found in model.named_modules())
        return next(found for path, found in paths if path == part), slice(None), False
    try:
        layer, head = map(index, part)
    except (TypeError, ValueError):
        told = repr(part) if isinstance(part, tuple | list) else type(part).__name__
        raise TypeError(
            f"part came as {told}: expected the path of a module, as list_blocks(model)[0], or two "
            "whole numbers, (layer, head)"
        ) from None
    layers = mixing_layers(model)
    if not 0 <= layer < len(layers):
        raise ValueError(f"layer {layer}: the model has {len(layers)}, counted from 0")
    mixing, heads = list(layers.items())[layer]
    if not 0 <= head < heads:
        raise ValueError(f"head {head}: layer {layer} has {heads}, counted from 0")
    width = mixing.in_features // heads
    return mixing, slice(head * width, (head + 1) * width), True


def _whole(tokens: Iterable[int] | Tensor) -> list[int]:
    """Numbers of tokens, also of a tensor, an array or what can be read only once."""
    row = isinstance(tokens, Iterable) and getattr(tokens, "ndim", 1) == 1
    found = [each.tolist() if hasattr(each, "tolist") else each for each in tokens] if row else []
    wrong = [each for each in found if type(each) is not int] if row else [tokens]
    if wrong:
        raise TypeError(
            f"tokens came as {type(tokens).__name__}, {wrong[0]}: expected whole numbers in a row, "
            "as [3, 4]; of a mask pass mask.nonzero().flatten()"
        )
    return found


def _rows(tokens: list[int] | None, count: int) -> list[int]:
    rows = list(range(count)) if tokens is None else tokens
    for row in rows:
        if not 0 <= row < count:
            raise ValueError(f"token {row}: there are {count}, counted from 0")
    return rows
