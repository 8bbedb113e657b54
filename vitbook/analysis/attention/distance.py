"""How far a head looks, in pixels: the receptive field that attention chooses for itself."""

from collections.abc import Callable
from functools import lru_cache
from math import hypot

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.analysis.attention.offsets import check_heads, check_weights
from vitbook.analysis.capture.calls import ALL, AttentionCall
from vitbook.analysis.capture.layout import (
    Pair,
    check_map,
    check_square,
    token_layout,
    token_step,
)
from vitbook.analysis.capture.running import takes_images
from vitbook.analysis.capture.streaming import fold_attention, pieces

# Rows of maps, "batch heads queries keys", and which queries they are -> a number for each row.
Rows = Callable[[Tensor, slice], Tensor]


def attention_distance(
    weights: Float[Tensor, "batch heads queries keys"],
    grid_size: Pair,
    patch_size: int | Pair,
    num_prefix_tokens: int,
    renormalize: bool = False,
) -> Float[Tensor, "batch heads"]:
    r"""Mean attention distance of each head, in pixels of the image that the model takes.

    .. math::
        \frac{1}{n} \sum_i \sum_j A_{ij} \, \lVert x_i - x_j \rVert, \qquad
        x_i \text{ the place of patch } i \text{ in pixels}

    ViT paper, appendix D.7, figures 7 (right) and 11, as in the authors' code: rows and columns of
    the prefix tokens are cut and what is left is *not* brought back to sum 1. So the number mixes
    how far a head looks with how much it looks at patches at all (:func:`weight_on_prefix`).
    Summed in float32 at least.

    Args:
        weights: attention after the softmax, prefix tokens first.
        grid_size: (rows, columns) of the patches.
        patch_size: pixels that a token steps; a pair (down, across) if they differ.
        num_prefix_tokens: 1 for a class token, 2 with a distillation token, ...
        renormalize: divide each row by its weight on patches: how far a head looks where it looks
            at patches. A row with no weight on them (0/0) has no distance and is left out of the
            mean; where all rows are so, the result is nan.

    Raises:
        ValueError: a map that is not tokens by tokens, another number of tokens than prefix and
            grid make, a size that is not positive, or weights that are NaN or negative.
    """
    check_map(weights.shape, grid_size, num_prefix_tokens)
    measure = _distance_of_rows(grid_size, patch_size, num_prefix_tokens, renormalize)
    patches = weights[..., num_prefix_tokens:, :]
    return measure(patches, slice(num_prefix_tokens, None)).nanmean(-1)


def uniform_attention_distance(grid_size: Pair, patch_size: int | Pair) -> float:
    """What :func:`attention_distance` is for equal weight on every patch and none on the prefix.

    The control: about 116 px on a grid of 14 by 14 with patches of 16 px. Summed over the offsets
    between two patches, each as often as it occurs.
    """
    (rows, columns), (down, across) = _sizes(grid_size, patch_size)
    total = sum(
        (rows - abs(dy)) * (columns - abs(dx)) * hypot(down * dy, across * dx)
        for dy in range(1 - rows, rows)
        for dx in range(1 - columns, columns)
    )
    return total / (rows * columns) ** 2


def weight_on_prefix(
    weights: Float[Tensor, "batch heads queries keys"], num_prefix_tokens: int
) -> Float[Tensor, "batch heads"]:
    """Share of its weight that a patch gives to prefix tokens, averaged over the patches.

    Read it beside :func:`attention_distance`: what goes there counts as no distance at all. With
    uniform attention over n patches and p prefix tokens it is p / (n + p).

    Raises:
        ValueError: a map that is not tokens by tokens, no patches behind the prefix tokens, or
            weights that are NaN, infinite or negative.
    """
    _check_prefix(weights.shape, num_prefix_tokens)
    measure = _weight_of_rows(num_prefix_tokens)
    return measure(weights[..., num_prefix_tokens:, :], ALL).mean(-1)


@takes_images()
def mean_attention_distance(
    model: nn.Module,
    images: Float[Tensor, "images channels height width"],
    *,
    batch_size: int = 8,
    renormalize: bool = False,
    num_prefix_tokens: int | None = None,
    grid_size: Pair | None = None,
    patch_size: int | Pair | None = None,
) -> Float[Tensor, "layers heads"]:
    """:func:`attention_distance` of every head of a model, averaged over images.

    A layer's map is made some rows at a time, and folded as soon as they are made: memory grows
    neither with the depth of the model nor with the number of images, and with the tokens, not
    with their square.

    Args:
        model: ours, timm's, torchvision's or Hugging Face's ViT; it runs in evaluation mode
            without gradients, and every part is left in the mode in which it came.
        images: normalised as the model takes them; each batch goes to its device and dtype.
        batch_size: images at a time.
        renormalize: as in :func:`attention_distance`.
        num_prefix_tokens: for a model that does not say it.
        grid_size: (rows, columns) of patches, for a model that does not say it.
        patch_size: pixels that a token steps; by default as the model says it, else the image's
            size over the grid's.

    Raises:
        ValueError: what :func:`attention_distance` refuses, with the layer's name; layers with
            different numbers of heads; a model that does not say its grid or prefix tokens.
        TypeError: images that are not floating point.
        RuntimeError: no attention that :func:`vitbook.analysis.capture_attention` knows ran.

    Example:
        >>> import timm
        >>> import torch
        >>> from vitbook.analysis import mean_attention_distance
        >>> model = timm.create_model("vit_tiny_patch16_224", img_size=64, depth=2)
        >>> tuple(mean_attention_distance(model, torch.rand(4, 3, 64, 64)).shape)
        (2, 3)
    """
    grid_size, num_prefix_tokens = token_layout(
        model, images, grid_size=grid_size, num_prefix_tokens=num_prefix_tokens
    )

    step = patch_size

    def fold(call: AttentionCall) -> Tensor:
        nonlocal step
        check_map(call.shape, grid_size, num_prefix_tokens)
        step = token_step(model, images, grid_size) if step is None else step
        rows = _distance_of_rows(grid_size, step, num_prefix_tokens, renormalize)
        return _fold(call, rows, num_prefix_tokens)

    return _mean_over_images(model, images, batch_size, fold)


@takes_images()
def mean_weight_on_prefix(
    model: nn.Module,
    images: Float[Tensor, "images channels height width"],
    *,
    batch_size: int = 8,
    num_prefix_tokens: int | None = None,
) -> Float[Tensor, "layers heads"]:
    """:func:`weight_on_prefix` of every head of a model, averaged over images.

    Arguments and errors are those of :func:`mean_attention_distance`.
    """
    (num_prefix_tokens,) = token_layout(model, images, num_prefix_tokens=num_prefix_tokens)

    def fold(call: AttentionCall) -> Tensor:
        _check_prefix(call.shape, num_prefix_tokens)
        return _fold(call, _weight_of_rows(num_prefix_tokens), num_prefix_tokens)

    return _mean_over_images(model, images, batch_size, fold)


def _sizes(grid_size: Pair, patch_size: int | Pair) -> tuple[Pair, Pair]:
    step = (patch_size, patch_size) if isinstance(patch_size, int) else patch_size
    if min(*grid_size, *step) < 1:
        raise ValueError(
            f"a grid of {grid_size[0]}x{grid_size[1]} patches of {step[0]}x{step[1]} px: "
            "expected whole numbers above 0"
        )
    return grid_size, step


def _distance_of_rows(
    grid_size: Pair, patch_size: int | Pair, num_prefix_tokens: int, renormalize: bool
) -> Rows:
    """Each query's distance; nan for one that sees no patch, if it is to be brought to sum 1."""
    (rows, columns), (down, across) = _sizes(grid_size, patch_size)

    @lru_cache(maxsize=1)  # of the same queries of the next image
    def pixels(start: int, stop: int | None, device: torch.device, dtype: torch.dtype) -> Tensor:
        """From each of these patches to every patch."""
        place = torch.arange(rows * columns, device=device)
        y, x = down * (place // columns).to(dtype), across * (place % columns).to(dtype)
        some = slice(start, stop)
        return torch.hypot(y[some, None] - y, x[some, None] - x)

    def measure(weights: Tensor, queries: slice) -> Tensor:
        start = queries.start - num_prefix_tokens
        stop = None if queries.stop is None else queries.stop - num_prefix_tokens
        exact = torch.promote_types(weights.dtype, torch.float32)
        patches = weights[..., num_prefix_tokens:]
        # No matrix product: on a GPU it may run in TF32.
        far = (patches * pixels(start, stop, weights.device, exact)).sum(-1)
        check_weights(far)
        return far / patches.sum(-1, dtype=exact) if renormalize else far

    return measure


def _weight_of_rows(num_prefix_tokens: int) -> Rows:
    def measure(weights: Tensor, queries: slice) -> Tensor:
        exact = torch.promote_types(weights.dtype, torch.float32)
        given = weights[..., :num_prefix_tokens].sum(-1, dtype=exact)
        check_weights(given)
        return given

    return measure


def _fold(
    call: AttentionCall, measure: Rows, num_prefix_tokens: int
) -> Float[Tensor, "batch heads"]:
    """The mean of ``measure`` over the patches, from some rows of the map at a time."""
    found: list[list[Tensor]] = []
    for images, queries in pieces(call, first=num_prefix_tokens):
        if queries.start == num_prefix_tokens:
            found.append([])
        found[-1].append(measure(call.weights(images, queries), queries))
    return torch.cat([torch.cat(rows, dim=-1) for rows in found]).nanmean(-1)


def _check_prefix(shape: tuple[int, ...], num_prefix_tokens: int) -> None:
    check_square(shape)
    if not 0 <= num_prefix_tokens < shape[-1]:
        raise ValueError(
            f"{num_prefix_tokens} prefix tokens in maps of {shape[-1]} tokens: expected at least "
            "one patch behind them"
        )


def _mean_over_images(
    model: nn.Module, images: Tensor, batch_size: int, fold: Callable[[AttentionCall], Tensor]
) -> Float[Tensor, "layers heads"]:
    """``fold`` gives "batch heads" for one layer."""
    total = 0
    for layers in fold_attention(model, images, batch_size, fold):
        check_heads([heads.shape[1] for heads in layers.values()])
        total = total + torch.stack([heads.sum(0) for heads in layers.values()])
    return total / len(images)
