"""What the embedding of patches looks for: its filters, and their principal components."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from vitbook.devices import to_float64
from vitbook.model_utilities import evaluating


@dataclass(frozen=True)
class EmbeddingFilters:
    """The filters that read a model's images.

    Attributes:
        filters: one for each number of a token; where a token reads several views of the image
            (SPT, RPT) their colours stand one view after another.
        num_views: 1 where the image alone is read.
        note: what they are, and what between image and token they leave out.
    """

    filters: Float[Tensor, "width views_channels height filter_width"]
    num_views: int
    note: str

    @property
    def by_view(self) -> Float[Tensor, "width views channels height filter_width"]:
        """The same, one image for each view."""
        return rearrange(self.filters, "d (v c) p q -> d v c p q", v=self.num_views)


@dataclass(frozen=True)
class PrincipalFilters:
    """Principal components of filters, the largest first.

    Attributes:
        filters: of length 1 each, at right angles to each other; the sign is chosen so that the
            number farthest from zero is positive.
        shares: of the variance of all filters.
    """

    filters: Float[Tensor, "components channels height filter_width"]
    shares: Float[Tensor, " components"]


@torch.no_grad()
def principal_filters(
    filters: Float[Tensor, "width channels height filter_width"], count: int = 28
) -> PrincipalFilters:
    r"""The few images that most of the filters are mixtures of.

    .. math:: W - \bar W = U \Sigma V^\top, \qquad
              \text{share}_i = \sigma_i^2 \Big/ \sum_j \sigma_j^2

    ViT paper, figure 7 (left), shows the first 28 rows of :math:`V^\top`. The mean filter
    :math:`\bar W` is taken off first, as principal component analysis does. Patches of images,
    "patches channels height width", can be given as well: their components are a control to compare
    with. Computed in float64.

    Args:
        filters: of :func:`embedding_filters`, for example.
        count: components at most; there are no more than pixels in a filter, or filters less one.

    Raises:
        ValueError: fewer than two filters, filters that are all alike or hold NaN, or a count
            below 1.
    """
    if count < 1 or len(filters) < 2:
        raise ValueError(f"{count} components of {len(filters)} filters: expected 1 of 2 at least")
    rows = to_float64(filters).flatten(1)
    if not rows.isfinite().all():
        raise ValueError("filters hold NaN or infinity: expected finite numbers")
    centered = rows - rows.mean(0)
    _, values, components = torch.linalg.svd(centered, full_matrices=False)
    # Rounding leaves a little where all filters are alike.
    if values[0] <= 1e-12 * rows.abs().max():
        raise ValueError("all filters are alike: expected some variance to find components of")
    count = min(count, len(filters) - 1, rows.shape[1])
    components, squares = components[:count], values.square()
    largest = components.gather(1, components.abs().argmax(1, keepdim=True))
    images = (components * largest.sign()).reshape(count, *filters.shape[1:])
    exact = torch.promote_types(filters.dtype, torch.float32)
    return PrincipalFilters(images.to(exact), (squares[:count] / squares.sum()).to(exact))


def as_images(filters: Float[Tensor, "*lead"]) -> Float[Tensor, "*lead"]:
    r"""Numbers from 0 to 1 to show filters as images, on one scale for all of them.

    .. math:: \tfrac{1}{2} + w / (2 \max |w|)

    Zero is mid-grey and the largest magnitude of *all* filters is black or white, so that panels
    can be compared; a scale for each would lift a faint one to the strength of the others.
    """
    exact = filters.to(torch.promote_types(filters.dtype, torch.float32))
    largest = exact.abs().max()
    return exact / (2 * largest) + 0.5 if largest > 0 else torch.full_like(exact, 0.5)


@torch.no_grad()
def embedding_filters(model: nn.Module) -> EmbeddingFilters:
    r"""The filters with which a model reads its images first, ours or not.

    - A convolution on the image (patches, overlapping patches, the stem of a residual network
      or of a hybrid; timm's, torchvision's, Hugging Face's): its weights as they are used,
      standardised for example.
    - A linear layer behind a LayerNorm on flattened patches (SPT, RPT): both as one. With gain
      :math:`g` and weights :math:`W` the token is :math:`W'x / \sigma(x)` and a constant, where

      .. math:: W' = W \odot g - \mathrm{mean}_j\,(W \odot g)_j

      are the filters. What is left out is :math:`\sigma(x)`, the patch's own contrast.
    - The first soft split of Tokens-to-Token: its windows pass a LayerNorm and a linear layer too.
      Filters of the values alone, which the shortcut carries on; queries and keys have as many of
      their own, and later splits mix what these found.

    Raises:
        ValueError: a model that reads its images otherwise.
    """
    for module in model.modules():
        if hasattr(module, "soft_splits") and hasattr(module, "block1"):
            return _of_soft_split(module)
        if hasattr(module, "views") and isinstance(getattr(module, "norm", None), nn.LayerNorm):
            return _of_views(module)
        if isinstance(module, nn.Conv2d) and module.groups == 1:
            return _of_convolution(module)
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            break
    raise ValueError(
        f"{type(model).__name__} has no filters that embedding_filters knows: expected a "
        "convolution on the image, or a tokenizer of vitbook; principal_filters takes weights "
        "laid out as (width, channels, height, width of a filter)"
    )


def _of_convolution(module: nn.Conv2d) -> EmbeddingFilters:
    note = "weights of a convolution on the image"
    spans = zip(module.kernel_size, module.dilation, strict=True)
    sides = [step * (side - 1) + 1 for side, step in spans]
    with evaluating(module), torch.compiler.set_stance("force_eager"):
        with _ConvolutionCall() as call:
            module(module.weight.new_zeros(1, module.in_channels, *sides))
        weight = (module.weight if call.weight is None else call.weight).detach()
        if not torch.equal(weight, module.weight):
            note += ", as the module changes them before use"
    return EmbeddingFilters(weight, 1, note)


class _ConvolutionCall(TorchFunctionMode):
    """Sees with which weight a convolution is called: libraries standardise it, each in its way."""

    weight: Tensor | None = None

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function is F.conv2d:
            self.weight = kwargs["weight"] if "weight" in kwargs else args[1]
        return function(*args, **kwargs)


def _behind_norm(weight: Tensor, norm: nn.LayerNorm) -> Tensor:
    gained = weight * norm.weight
    return gained - gained.mean(1, keepdim=True)


def _of_views(module: nn.Module) -> EmbeddingFilters:
    down, across = module.patch
    filters = rearrange(
        _behind_norm(module.projection.weight, module.norm), "d (c p q) -> d c p q",
        p=down, q=across,
    )  # fmt: skip
    return EmbeddingFilters(
        filters,
        filters.shape[1] // module.channels,
        "weights of a linear layer with the gain and the centring of the LayerNorm before it; "
        "the division by the patch's contrast is left out",
    )


def _of_soft_split(module: nn.Module) -> EmbeddingFilters:
    block, kernel = module.block1, module.soft_splits[0][0]
    # Laid out as (k, q, v) or (q, k, v): the values come last in both.
    projection = block.kqv if hasattr(block, "kqv") else block.qkv
    values = projection.weight.chunk(3)[2]
    filters = rearrange(
        _behind_norm(values, block.norm1), "d (c p q) -> d c p q", p=kernel, q=kernel
    )
    return EmbeddingFilters(
        filters,
        1,
        "weights of the values of the first soft split's token block, with the gain and the "
        "centring of its LayerNorm; its queries and keys, the division by the window's contrast "
        "and the later splits are left out",
    )
