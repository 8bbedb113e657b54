"""How strongly a loss pulls at each layer of a model."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from vitbook.analysis.capture.outputs import first_tensor, list_blocks, told
from vitbook.analysis.capture.record import record_modules
from vitbook.analysis.capture.running import as_model_takes, takes_images
from vitbook.devices import to_float64
from vitbook.errors import UnknownNameError, check_count, is_whole_number
from vitbook.model_utilities import evaluating, logits_in


@takes_images(gradients=True)
def gradient_norms(
    model: nn.Module,
    images: Float[Tensor, "images channels height width"],
    labels: Int[Tensor, " images"],
    loss: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy,
    *,
    part: str | None = None,
    batch_size: int = 32,
) -> dict[str, float]:
    r"""Length of the gradient of a mean loss with respect to the parameters of each layer.

    .. math:: \Big\lVert \nabla_{\theta_\ell}\, \frac{1}{n} \sum_i L(f_\theta(x_i), y_i) \Big\rVert

    Xiong et al. 2020 compare Post-LN with Pre-LN so, at the start of training, by one weight of
    each block: the last of its MLP (section 3.3), ``part="mlp.contract.weight"`` here. The model
    runs in evaluation mode, without dropout; its modes and the ``.grad`` of its parameters are left
    as they were. Summed in float32 at least.

    Args:
        model: any classifier; a frozen parameter has no gradient and counts nothing.
        images: normalised as the model takes them.
        labels: a class for each image.
        loss: logits and labels to their *mean* loss.
        part: path from a block to one of its parameters or parts; then each block is measured by
            that alone, and nothing outside the blocks is.
        batch_size: images at a time; the gradient is that of all of them.

    Returns:
        Layer -> norm, in the model's order. Each block is a layer (:func:`list_blocks`); a
            parameter outside all blocks is counted with the largest module that holds it and no
            block (``tokenizer``, ``head``).

    Raises:
        TypeError: images that are not floating point.
        ValueError: no images, NaN in them, another number of labels, no parameter to learn, or a
            part of a model without blocks.
        UnknownNameError: a block has no such part that learns; names the nearest.
    """
    check_count("batch_size", batch_size)
    if len(labels) != len(images):
        raise ValueError(f"{len(labels)} labels for {len(images)} images: expected one for each")
    learned = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not learned:
        raise ValueError(f"{type(model).__name__} has no parameter that learns: expected one")
    blocks = list_blocks(model)
    if part is not None:
        learned = _in_blocks(learned, blocks, part)
    exact = {n: torch.promote_types(p.dtype, torch.float32) for n, p in learned.items()}
    total = {name: torch.zeros_like(p, dtype=exact[name]) for name, p in learned.items()}
    with evaluating(model), torch.enable_grad():
        for batch, truth in zip(images.split(batch_size), labels.split(batch_size), strict=True):
            logits = logits_in(model(as_model_takes(model, batch)), model)
            value = loss(logits, truth.to(logits.device)) * (len(batch) / len(images))
            gradients = torch.autograd.grad(value, list(learned.values()), allow_unused=True)
            for name, gradient in zip(learned, gradients, strict=True):
                if gradient is not None:
                    total[name] += gradient
    squares: dict[str, float] = {}
    for name, gradient in total.items():
        layer = _layer_of(name.removeprefix("_orig_mod."), blocks)
        squares[layer] = squares.get(layer, 0.0) + to_float64(gradient).square().sum().item()
    return {layer: square**0.5 for layer, square in squares.items()}


@takes_images(gradients=True)
def gradients_by_depth(
    model: nn.Module,
    images: Float[Tensor, "images channels height width"],
    labels: Int[Tensor, " images"],
    depths: Sequence[int],
    loss: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy,
    *,
    part: str | None = None,
    batch_size: int = 32,
) -> dict[int, list[float]]:
    """:func:`gradient_norms` of the blocks of a model that is cut to its first few, depth by depth.

    What comes before the blocks and after them stays. So encoders of different depths share all
    weights that they can share, and differ by no other draw of the head. Where a block's weights
    depend on how many blocks there are, each depth needs a model of its own. The model is left as
    it came.

    Args:
        model: a classifier whose blocks give what they take, as those of a Transformer do.
        images: normalised as the model takes them.
        labels: a class for each image.
        depths: numbers of blocks.
        loss: logits and labels to their *mean* loss.
        part: as for :func:`gradient_norms`.
        batch_size: images at a time.

    Returns:
        Depth -> norm of each block, from the input on.

    Raises:
        TypeError: images that are not floating point.
        ValueError: as :func:`gradient_norms`, a depth that the model does not have, or blocks that
            do not give what they take.
        UnknownNameError: a block has no such part that learns.
        RuntimeError: another thread looks into the model.

    Example:
        >>> import torch, vitbook
        >>> from vitbook.analysis import gradients_by_depth
        >>> model = vitbook.create_model("vit_micro_patch2_8")
        >>> images, labels = torch.rand(5, 1, 8, 8), torch.arange(5)
        >>> found = gradients_by_depth(model, images, labels, (1, 4), part="mlp.contract.weight")
        >>> {depth: len(norms) for depth, norms in found.items()}
        {1: 1, 4: 4}
    """
    model = getattr(model, "_orig_mod", model)  # each depth would be compiled anew
    with record_modules(model, lambda path, module: ()):  # two threads would cut each other's
        blocks, depths = list_blocks(model), tuple(depths)
        _check_depths(model, blocks, depths)
        _check_stream(model, blocks, images[:1])
        found = {}
        for depth in depths:
            with _first_blocks(model, blocks, depth):
                norms = gradient_norms(
                    model, images, labels, loss, part=part, batch_size=batch_size
                )
            found[int(depth)] = [norms.get(block, 0.0) for block in blocks[:depth]]
    return found


def _check_depths(model: nn.Module, blocks: tuple[str, ...], depths: tuple) -> None:
    if not blocks:
        raise ValueError(
            f"no blocks found in {type(model).__name__}: expected some in a ModuleList or a "
            "Sequential to cut it to"
        )
    for depth in depths:
        if not is_whole_number(depth) or not 1 <= depth <= len(blocks):
            raise ValueError(
                f"depth {depth!r}: expected a whole number from 1 to {len(blocks)}, the blocks of "
                f"{type(model).__name__}"
            )


@torch.no_grad()
def _check_stream(model: nn.Module, blocks: tuple[str, ...], image: Tensor) -> None:
    """Refuse blocks for which nothing can stand in that hands its input on."""

    def watch(path: str, module: nn.Module) -> Iterator[RemovableHandle]:
        def after(module: nn.Module, args: tuple, kwargs: dict, output: object) -> None:
            taken = first_tensor(args, kwargs)
            if told(taken) != told(output) or taken is None:
                raise ValueError(
                    f"{path} of {type(model).__name__} takes {told(taken)} and gives "
                    f"{told(output)}: expected blocks that give what they take, as a "
                    "Transformer's, so that any number of them is a model"
                )

        if path in blocks:
            yield module.register_forward_hook(after, with_kwargs=True)

    with evaluating(model), record_modules(model, watch):
        model(as_model_takes(model, image))


class _HandsOn(nn.Module):
    """In the place of a block: its input, whatever else it is called with."""

    def forward(self, *args: object, **kwargs: object) -> Tensor | None:
        return first_tensor(args, kwargs)


@contextmanager
def _first_blocks(model: nn.Module, blocks: tuple[str, ...], depth: int) -> Iterator[None]:
    """In place of all blocks after the first ``depth`` stands what hands its input on."""
    places = [path.rpartition(".") for path in blocks[depth:]]
    cut = [(model.get_submodule(stack), name) for stack, _, name in places]
    kept = [getattr(stack, name) for stack, name in cut]
    try:
        for stack, name in cut:
            setattr(stack, name, _HandsOn())
        yield
    finally:
        for (stack, name), block in zip(cut, kept, strict=True):
            setattr(stack, name, block)


def _in_blocks(
    learned: dict[str, nn.Parameter], blocks: tuple[str, ...], part: str
) -> dict[str, nn.Parameter]:
    """The parameters of one part of each block."""
    if not blocks:
        raise ValueError(
            f"part {part!r}: expected blocks in a ModuleList or a Sequential to have it"
        )
    found: dict[str, nn.Parameter] = {}
    for block in blocks:
        own = {
            inner: name
            for name in learned
            for before, _, inner in [name.removeprefix("_orig_mod.").partition(f"{block}.")]
            if inner and not before
        }
        inside = [name for inner, name in own.items() if f"{inner}.".startswith(f"{part}.")]
        if not inside:
            raise UnknownNameError(f"part of {block} that learns", part, own)
        found |= {name: learned[name] for name in inside}
    return found


def _layer_of(parameter: str, blocks: tuple[str, ...]) -> str:
    """The block that a parameter is in, or the largest part around it that holds no block."""
    parts = parameter.split(".")
    for length in range(1, len(parts) + 1):
        path = ".".join(parts[:length])
        if path in blocks or not any(block.startswith(f"{path}.") for block in blocks):
            return path
    return parameter
