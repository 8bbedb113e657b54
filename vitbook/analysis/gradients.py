"""How strongly a loss pulls at each layer of a model."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from vitbook.analysis.outputs import list_blocks
from vitbook.analysis.running import as_model_takes, check_images
from vitbook.devices import to_float64
from vitbook.errors import check_count
from vitbook.modes import evaluating


def gradient_norms(
    model: nn.Module,
    images: Float[Tensor, "images channels height width"],
    labels: Int[Tensor, " images"],
    loss: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy,
    *,
    batch_size: int = 32,
) -> dict[str, float]:
    r"""Length of the gradient of a mean loss with respect to the parameters of each layer.

    .. math:: \Big\lVert \nabla_{\theta_\ell}\, \frac{1}{n} \sum_i L(f_\theta(x_i), y_i) \Big\rVert

    Xiong et al. 2020 compare Post-LN with Pre-LN so, at the start of training. The
    model runs in evaluation mode, without dropout; its modes and the ``.grad`` of its parameters
    are left as they were. Summed in float32 at least.

    Args:
        model: any classifier; a frozen parameter has no gradient and counts nothing.
        images: normalised as the model takes them.
        labels: a class for each image.
        loss: logits and labels to their *mean* loss.
        batch_size: images at a time; the gradient is that of all of them.

    Returns:
        Layer -> norm, in the model's order. Each block is a layer (:func:`list_blocks`); a
            parameter outside all blocks is counted with the largest module that holds it and no
            block (``tokenizer``, ``head``).

    Raises:
        TypeError: images that are not floating point.
        ValueError: no images, NaN in them, another number of labels, or no parameter to learn.
    """
    check_images(images)
    check_count("batch_size", batch_size)
    if len(labels) != len(images):
        raise ValueError(f"{len(labels)} labels for {len(images)} images: expected one for each")
    learned = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not learned:
        raise ValueError(f"{type(model).__name__} has no parameter that learns: expected one")
    exact = {n: torch.promote_types(p.dtype, torch.float32) for n, p in learned.items()}
    total = {name: torch.zeros_like(p, dtype=exact[name]) for name, p in learned.items()}
    with evaluating(model), torch.enable_grad():
        for batch, truth in zip(images.split(batch_size), labels.split(batch_size), strict=True):
            logits = model(as_model_takes(model, batch))
            logits = getattr(logits, "logits", logits)  # Hugging Face wraps them
            value = loss(logits, truth.to(logits.device)) * (len(batch) / len(images))
            gradients = torch.autograd.grad(value, list(learned.values()), allow_unused=True)
            for name, gradient in zip(learned, gradients, strict=True):
                if gradient is not None:
                    total[name] += gradient
    squares: dict[str, float] = {}
    blocks = list_blocks(model)
    for name, gradient in total.items():
        layer = _layer_of(name.removeprefix("_orig_mod."), blocks)
        squares[layer] = squares.get(layer, 0.0) + to_float64(gradient).square().sum().item()
    return {layer: square**0.5 for layer, square in squares.items()}


def _layer_of(parameter: str, blocks: tuple[str, ...]) -> str:
    """The block that a parameter is in, or the largest part around it that holds no block."""
    parts = parameter.split(".")
    for length in range(1, len(parts) + 1):
        path = ".".join(parts[:length])
        if path in blocks or not any(block.startswith(f"{path}.") for block in blocks):
            return path
    return parameter
