"""Guided backpropagation, by Captum."""

import warnings
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from vitbook.analysis.attribution.captum_maps import Logits, attributed, captum, on_grid
from vitbook.analysis.capture.layout import Pair, pixels_per_patch, token_layout
from vitbook.analysis.capture.record import claim, record_modules
from vitbook.analysis.capture.running import batches, logits_of, takes_images
from vitbook.model_utilities import evaluating


@takes_images(gradients=True)
def guided_backpropagation(
    model: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    targets: Int64[Tensor, "batch"] | None = None,
    *,
    batch_size: int = 32,
    grid_size: Pair | None = None,
) -> Float[Tensor, "batch rows columns"]:
    """How steep a logit is in the pixels, where each ReLU hands back positive gradients alone.

    Springenberg et al. 2015, "Striving for simplicity: the all convolutional net", section 3.4.
    The absolute values are summed over the channels and over each patch.

    Args:
        model: gives logits, "batch classes", and has its ReLUs as modules; left as it came.
        images: as the model takes them.
        targets: the class that is asked about, of each image; by default the model's answer.
        batch_size: images at a time.
        grid_size: (rows, columns) of patches, for a model that does not say it.

    Raises:
        ModuleNotFoundError: Captum is not installed.
        ValueError: a class that the model does not have, not one for each image, a model without
            a ReLU (a Vision Transformer has GELUs), with one that works in place, or with one that
            is no module.
        RuntimeError: another thread looks into the model.

    Example:
        >>> import vitbook
        >>> from vitbook.analysis import guided_backpropagation
        >>> from vitbook.datasets import load, normalize
        >>> model = vitbook.load_checkpoint("digits-resnet8_digits-digits-seed0").model
        >>> tuple(guided_backpropagation(model, normalize(load("digits", "test").images[:3])).shape)
        (3, 2, 2)
    """
    relus = [module for module in model.modules() if isinstance(module, nn.ReLU)]
    if not relus:
        raise ValueError(
            f"{type(model).__name__} has no nn.ReLU: guided backpropagation changes nothing else; "
            "use integrated_gradients, or relevance for a Transformer"
        )
    if any(relu.inplace for relu in relus):
        raise ValueError(
            f"{type(model).__name__} has ReLUs that work in place, whose gradient cannot be "
            "changed: set inplace=False on each"
        )
    (grid_size,) = token_layout(model, images, grid_size=grid_size)
    pixels_per_patch(model, images, grid_size)
    _check_every_relu(model, next(batches(model, images, 1)), relus)
    method = captum().GuidedBackprop(Logits(model))
    with claim(model), evaluating(model), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Setting backward hooks on ReLU")
        maps = attributed(method, model, images, targets, batch_size)
    return on_grid(maps.abs().sum(1), grid_size)


def _check_every_relu(model: nn.Module, image: Tensor, relus: list[nn.ReLU]) -> None:
    """Refuse a rectifier that is called as a function: Captum changes modules alone."""
    seen, calls = set(), []

    def keep(module: nn.Module, _: tuple, output: Tensor) -> None:
        calls.append(output)  # kept, so that no other node takes its place
        seen.add(output.grad_fn)

    def watch(_: str, module: nn.Module) -> list:
        return [module.register_forward_hook(keep)] if module in relus else []

    with torch.enable_grad(), evaluating(model), record_modules(model, watch):
        logits = logits_of(model)(image.clone().requires_grad_() + 0)
    nodes, known, unseen = [logits.grad_fn], set(), 0
    while nodes:
        node = nodes.pop()
        if node is None or node in known:
            continue
        known.add(node)
        unseen += node not in seen and _rectifies(node)
        nodes += [parent for parent, _ in node.next_functions]
    if unseen:
        raise ValueError(
            f"{type(model).__name__} rectifies in {unseen} places without an nn.ReLU, by F.relu, a "
            "clamp at 0, a maximum with 0 or a ReLU6, which guided backpropagation would leave as "
            "they are: put nn.ReLU modules there, or use integrated_gradients"
        )


def _rectifies(node: Any) -> bool:
    name = node.name().rstrip("0123456789")
    if name == "MaximumBackward":
        return _constant(node) == 0
    low = {
        "ReluBackward": 0, "HardtanhBackward": getattr(node, "_saved_min_val", None),
        "ClampMinBackward": getattr(node, "_saved_min", None),
        "ClampBackward": getattr(node, "_saved_min", None),
        "ThresholdBackward": getattr(node, "_saved_threshold", None),
    }.get(name)  # fmt: skip
    return low is not None and low == 0


def _constant(node: Any) -> float | None:
    """What a maximum is taken with, where it is one number and has no gradient of its own."""
    (one, _), (other, _) = node.next_functions
    if one and other:
        return None
    values = {*(node._saved_other if one else node._saved_self).flatten().tolist()}
    return values.pop() if len(values) == 1 else None
