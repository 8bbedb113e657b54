"""Activation patching: parts of one image's forward pass in that of another."""

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from vitbook.analysis.capture.mixing import mixing_layers
from vitbook.analysis.capture.outputs import check_layers
from vitbook.analysis.capture.record import record_modules
from vitbook.analysis.capture.running import as_model_takes, logits_of, takes_images
from vitbook.model_utilities import evaluating


@takes_images()
@torch.no_grad()
def patched_logits(
    model: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    others: Float[Tensor, "_batch _channels _height _width"],
    part: str | tuple[int, int],
    tokens: Sequence[int] | None = None,
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
            dimension; or (layer, head), both counted from 0, of ours or timm's.
        tokens: which, counted from 0, prefix tokens first; by default all.

    Raises:
        ValueError: images of two shapes; no such token, layer or head; a part without tokens.
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
    if others.shape != images.shape:
        raise ValueError(
            f"images of shape {tuple(images.shape)} and others of {tuple(others.shape)}: expected "
            "as many of the same size"
        )
    module, columns, before = _place(model, part)
    kept: list[Tensor] = []

    def exchange(found: Tensor) -> Tensor:
        if not isinstance(found, Tensor) or found.ndim < 3:
            raise ValueError(f"{part} gives no tokens: expected a block, an attention or an MLP")
        rows = _rows(tokens, found.shape[1])
        if not kept:
            kept.append(found.clone())
            return found
        mixed = found.clone()
        mixed[:, rows, ..., columns] = kept[0][:, rows, ..., columns]
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
        if len(kept) != 1:
            raise RuntimeError(f"{part} of {type(model).__name__} did not run")
        return answer(as_model_takes(model, images))


def _place(model: nn.Module, part: str | tuple[int, int]) -> tuple[nn.Module, slice, bool]:
    """The module whose output, or input if the third says so, is exchanged in these columns."""
    if isinstance(part, str):
        check_layers(model, (part,))
        paths = ((path.removeprefix("_orig_mod."), found) for path, found in model.named_modules())
        return next(found for path, found in paths if path == part), slice(None), False
    layer, head = part
    layers = mixing_layers(model)
    if not 0 <= layer < len(layers):
        raise ValueError(f"layer {layer}: the model has {len(layers)}, counted from 0")
    mixing, heads = list(layers.items())[layer]
    if not 0 <= head < heads:
        raise ValueError(f"head {head}: layer {layer} has {heads}, counted from 0")
    width = mixing.in_features // heads
    return mixing, slice(head * width, (head + 1) * width), True


def _rows(tokens: Sequence[int] | None, count: int) -> list[int]:
    rows = list(range(count)) if tokens is None else list(tokens)
    for row in rows:
        if not 0 <= row < count:
            raise ValueError(f"token {row}: there are {count}, counted from 0")
    return rows
