"""Which pixels and patches an answer rests on, by Captum: one call that knows the tokens.

Each takes images and one class for each, and gives a number for each patch, "batch rows
columns". Captum's layer-wise relevance propagation is not here: it raises on these models, as it
has no rule for a LayerNorm; :mod:`~.attn_lrp` has them.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from einops import reduce
from jaxtyping import Float, Int64
from torch import Tensor, nn

from vitbook.analysis.attribution.baselines import Baseline, baseline_images, check_answer
from vitbook.analysis.capture.layout import Pair, pixels_per_patch, pixels_per_token, token_layout
from vitbook.analysis.capture.running import batches, check_targets, logits_of, takes_images
from vitbook.errors import check_count, is_whole_number
from vitbook.extras import from_extra
from vitbook.model_utilities import evaluating

MOST_STEPS = 1024  # Gauss and Legendre's points come of a matrix of steps by steps


@takes_images(gradients=True)
def integrated_gradients(
    model: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    targets: Int64[Tensor, "batch"] | None = None,
    *,
    baseline: Baseline = "black",
    steps: int = 32,
    per_pixel: bool = False,
    batch_size: int = 32,
    grid_size: Pair | None = None,
) -> Float[Tensor, "batch rows columns"]:
    r"""The gradient of a logit, summed on the straight way from a baseline to the image.

    .. math::
        a_i = (x_i - x'_i) \int_0^1 \frac{\partial F(x' + \alpha (x - x'))}{\partial x_i}\,d\alpha,
        \qquad \sum_i a_i = F(x) - F(x')

    Sundararajan et al. 2017, "Axiomatic attribution for deep networks", with their axiom of
    completeness; the integral by Gauss and Legendre (Captum's ``IntegratedGradients``). The
    attributions are summed over the channels of each pixel and then over each patch, so that the
    sum of the map is still :math:`F(x) - F(x')`.

    A LayerNorm is steep where its input is nearly constant: from a baseline of one colour into a
    tokenizer that normalises its patches, many steps are needed until the sum is complete.

    Args:
        model: gives logits, "batch classes"; left as it came, modes and gradients too.
        images: as the model takes them.
        targets: the class that is asked about, of each image; by default the model's answer.
        baseline: as in :func:`~.baselines.baseline_images`; by default what is black for the
            model, by the mean and the standard deviation that it says.
        steps: points on the way, 1 to 1024; more of them bring the sum nearer.
        per_pixel: return one number for each pixel, "batch height width", instead of one for each
            patch; the model then needs no grid.
        batch_size: images that the model is given at once, those on the way included.
        grid_size: (rows, columns) of patches, for a model that does not say it.

    Raises:
        ModuleNotFoundError: Captum is not installed.
        ValueError: a class that the model does not have, not one for each image, other steps, a
            baseline that :func:`~.baselines.baseline_images` refuses or from which the answer is
            NaN, or a model that gives no logits or does not say its grid.

    Example:
        >>> import torch
        >>> import vitbook
        >>> from vitbook.analysis import integrated_gradients
        >>> from vitbook.datasets import load, normalize
        >>> model = vitbook.load_checkpoint("digits-vit_micro_patch2_8-digits-seed0").model.eval()
        >>> images = normalize(load("digits", "test").images[:2])
        >>> classes = model(images).argmax(1)
        >>> maps = integrated_gradients(model, images, classes, steps=64)
        >>> tuple(maps.shape)
        (2, 4, 4)
        >>> risen = (model(images) - model(torch.full_like(images, -1))).gather(1, classes[:, None])
        >>> torch.allclose(maps.sum((1, 2)), risen[:, 0], rtol=0.05)
        True
    """
    if not is_whole_number(steps) or not 1 <= steps <= MOST_STEPS:
        raise ValueError(
            f"{steps!r} steps: expected a whole number from 1 to {MOST_STEPS}, as 32, or 256 for a "
            "sum that is nearer"
        )
    check_count("batch_size", batch_size)
    grid_size = None if per_pixel else _grid(model, images, grid_size)

    def explain(batch: Tensor, classes: Tensor, nothing: Tensor) -> Tensor:
        method = captum().IntegratedGradients(logits_of(model))
        with torch.enable_grad():
            maps = method.attribute(
                batch.requires_grad_(),
                nothing,
                target=classes,
                n_steps=steps,
                internal_batch_size=max(batch_size, len(batch)),
            )
        return maps.detach().sum(1)

    maps = _explained(model, images, targets, baseline, max(batch_size // steps, 1), explain)
    return maps if grid_size is None else on_grid(maps, grid_size)


@takes_images()
def patch_occlusion(
    model: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    targets: Int64[Tensor, "batch"] | None = None,
    *,
    baseline: Baseline = "black",
    batch_size: int = 64,
    grid_size: Pair | None = None,
) -> Float[Tensor, "batch rows columns"]:
    """How far a logit falls when one patch is taken away, patch by patch.

    Zeiler and Fergus 2014, "Visualizing and understanding convolutional networks", who slide a
    grey square; here the square is one token's patch (Captum's ``FeatureAblation``).

    Arguments and errors are those of :func:`integrated_gradients`.
    """
    check_count("batch_size", batch_size)
    grid_size = _grid(model, images, grid_size)
    down, across = pixels_per_patch(model, images, grid_size)
    numbers = torch.arange(grid_size[0] * grid_size[1]).reshape(1, 1, *grid_size)
    patches = numbers.repeat_interleave(down, 2).repeat_interleave(across, 3)

    def explain(batch: Tensor, classes: Tensor, nothing: Tensor) -> Tensor:
        method = captum().FeatureAblation(logits_of(model))
        with torch.no_grad():
            maps = method.attribute(
                batch,
                nothing,
                target=classes,
                feature_mask=patches.to(batch.device),
                perturbations_per_eval=max(batch_size // len(batch), 1),
            )
        return maps[:, 0, ::down, ::across]  # every pixel of a patch has the patch's number

    return _explained(model, images, targets, baseline, max(batch_size // 8, 1), explain)


def on_grid(
    maps: Float[Tensor, "batch height width"], grid_size: Pair
) -> Float[Tensor, "batch rows columns"]:
    """The sum over the pixels of each patch.

    Raises:
        ValueError: a grid that does not divide the map.
    """
    down, across = pixels_per_token(maps, grid_size)
    return reduce(
        maps, "b (rows p) (columns q) -> b rows columns", "sum", p=down, q=across
    )  # fmt: skip


def captum() -> ModuleType:
    """Captum's methods.

    Raises:
        MissingPackageError: it is not installed.
    """
    with from_extra("chapters"):
        from captum import attr
    return attr


class Logits(nn.Module):
    """A model's answer as a module, which some of Captum's methods ask for; parts are its own."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Float[Tensor, "batch classes"]:
        return logits_of(self.model)(images)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("model"), name)


def asked_targets(
    targets: Tensor | None, images: Tensor, model: nn.Module, batch_size: int
) -> Int64[Tensor, " batch"]:
    """The class that is asked about, of each image: what was given, or the model's answer.

    Raises:
        ValueError: not one class for each image, or one that the model does not have.
        TypeError: classes that are no whole numbers in a row.
    """
    if targets is None:
        with torch.no_grad(), evaluating(model):
            answers = [
                logits_of(model)(some).argmax(1) for some in batches(model, images, batch_size)
            ]
        return torch.cat(answers)
    check_targets(targets, images)
    with torch.no_grad(), evaluating(model):
        classes = logits_of(model)(next(batches(model, images, 1))).shape[1]
    if not 0 <= targets.min() <= targets.max() < classes:
        raise ValueError(
            f"targets from {targets.min()} to {targets.max()}: expected 0 to {classes - 1}, "
            f"the classes of {type(model).__name__}"
        )
    return targets.long()


def attributed(
    method: Any, model: nn.Module, images: Tensor, targets: Tensor | None, batch_size: int
) -> Tensor:
    """What a method of Captum's that needs no baseline gives, some images at a time."""
    targets = asked_targets(targets, images, model, batch_size)
    pairs = zip(batches(model, images.detach(), batch_size), targets.split(batch_size), strict=True)
    with torch.enable_grad():
        maps = [
            method.attribute(batch.clone().requires_grad_(), classes.to(batch.device)).detach()
            for batch, classes in pairs
        ]
    return torch.cat(maps)


def _grid(model: nn.Module, images: Tensor, grid_size: Pair | None) -> Pair:
    (grid_size,) = token_layout(model, images, grid_size=grid_size)
    pixels_per_patch(model, images, grid_size)  # refuses a grid that does not divide the image
    return grid_size


def _explained(
    model: nn.Module,
    images: Tensor,
    targets: Tensor | None,
    baseline: Baseline,
    at_once: int,
    explain: Callable[[Tensor, Tensor, Tensor], Tensor],
) -> Tensor:
    """``explain`` of every image, its class and its baseline, some at a time."""
    nothing = baseline_images(images, baseline, model)
    with evaluating(model):
        first = next(batches(model, images, at_once))
        targets = asked_targets(targets, images, model, at_once)
        parts = zip(
            batches(model, images.detach(), at_once),
            targets.to(first.device).split(at_once),
            batches(model, nothing.detach(), at_once),
            strict=True,
        )
        maps = [explain(batch.clone(), classes, empty) for batch, classes, empty in parts]
    maps = torch.cat(maps)
    check_answer(maps, nothing, images)
    return maps
