"""How far a head looks, in pixels: the receptive field that attention chooses for itself."""

from collections.abc import Callable
from math import hypot

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.analysis.capture import capture_attention
from vitbook.analysis.layout import Pair, pixels_per_token, what_it_says
from vitbook.analysis.running import evaluating


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
    patches = _between_patches(weights, grid_size, num_prefix_tokens)
    exact = torch.promote_types(weights.dtype, torch.float32)
    pixels = _distances(grid_size, patch_size, weights.device, exact)
    # No matrix product: on a GPU it may run in TF32.
    rows = (patches * pixels).sum(-1)
    _check_weights(rows)
    if not renormalize:
        return rows.mean(-1)
    return (rows / patches.sum(-1, dtype=exact)).nanmean(-1)


def uniform_attention_distance(grid_size: Pair, patch_size: int | Pair) -> float:
    """What :func:`attention_distance` is for equal weight on every patch and none on the prefix.

    The null to compare with: about 116 px on a grid of 14 by 14 with patches of 16 px. Summed over
    the offsets between two patches, each as often as it occurs.
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
            weights that are NaN or negative.
    """
    _check_square(weights)
    if not 0 <= num_prefix_tokens < weights.shape[-1]:
        raise ValueError(
            f"{num_prefix_tokens} prefix tokens in maps of {weights.shape[-1]} tokens: expected "
            "at least one patch behind them"
        )
    exact = torch.promote_types(weights.dtype, torch.float32)
    rows = weights[..., num_prefix_tokens:, :num_prefix_tokens].sum(-1, dtype=exact)
    _check_weights(rows)
    return rows.mean(-1)


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

    Each layer's map is folded as soon as it is made: memory grows neither with the depth of the
    model nor with the number of images, only with one layer's map of one batch.

    Args:
        model: ours, timm's, torchvision's or Hugging Face's ViT; it runs in evaluation mode
            without gradients, and every part is left in the mode in which it came.
        images: normalised as the model takes them; each batch goes to its device and dtype.
        batch_size: images at a time.
        renormalize: as in :func:`attention_distance`.
        num_prefix_tokens: for a model that does not say it.
        grid_size: (rows, columns) of patches, for a model that does not say it.
        patch_size: pixels that a token steps; by default the image's size over the grid's.

    Raises:
        ValueError: what :func:`attention_distance` refuses, with the layer's name; layers with
            different numbers of heads; a model that does not say its grid or prefix tokens.
        TypeError: images that are not floating point.
        RuntimeError: no attention that :func:`vitbook.analysis.capture_attention` knows ran.
    """
    grid_size, num_prefix_tokens = what_it_says(
        model, images, grid_size=grid_size, num_prefix_tokens=num_prefix_tokens
    )

    def measure(weights: Tensor) -> Tensor:
        step = pixels_per_token(images, grid_size) if patch_size is None else patch_size
        return attention_distance(weights, grid_size, step, num_prefix_tokens, renormalize)

    return _mean_over_images(model, images, batch_size, measure)


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
    (num_prefix_tokens,) = what_it_says(model, images, num_prefix_tokens=num_prefix_tokens)
    return _mean_over_images(
        model, images, batch_size, lambda weights: weight_on_prefix(weights, num_prefix_tokens)
    )


def _sizes(grid_size: Pair, patch_size: int | Pair) -> tuple[Pair, Pair]:
    step = (patch_size, patch_size) if isinstance(patch_size, int) else patch_size
    if min(*grid_size, *step) < 1:
        raise ValueError(
            f"a grid of {grid_size[0]}x{grid_size[1]} patches of {step[0]}x{step[1]} px: "
            "expected whole numbers above 0"
        )
    return grid_size, step


def _distances(
    grid_size: Pair, patch_size: int | Pair, device: torch.device, dtype: torch.dtype
) -> Float[Tensor, "patches patches"]:
    """Pixels between the centres of every two patches."""
    (rows, columns), (down, across) = _sizes(grid_size, patch_size)
    y = down * torch.arange(rows, device=device, dtype=dtype)
    x = across * torch.arange(columns, device=device, dtype=dtype)
    dy, dx = y[:, None] - y, x[:, None] - x
    return torch.hypot(dy[:, None, :, None], dx[:, None, :]).reshape(rows * columns, -1)


def _check_square(weights: Tensor) -> None:
    queries, keys = weights.shape[-2:]
    if queries != keys:
        raise ValueError(
            f"a map of {queries} queries by {keys} keys: expected tokens by tokens; a key of "
            "Linformer attention mixes all the patches and has no place, so distance means nothing"
        )


def _check_weights(rows: Tensor) -> None:
    if not (rows >= 0).all():
        raise ValueError("weights are NaN or negative: expected attention after its softmax")


def _between_patches(weights: Tensor, grid_size: Pair, num_prefix_tokens: int) -> Tensor:
    _check_square(weights)
    rows, columns = grid_size
    if weights.shape[-1] != num_prefix_tokens + rows * columns:
        raise ValueError(
            f"maps of {weights.shape[-1]} tokens, but {num_prefix_tokens} prefix tokens and a grid "
            f"of {rows}x{columns} make {num_prefix_tokens + rows * columns}: give those that these "
            "maps have; an axial or block-local map, one row, column or block, has no distance here"
        )
    return weights[..., num_prefix_tokens:, num_prefix_tokens:]


@torch.no_grad()
def _mean_over_images(
    model: nn.Module, images: Tensor, batch_size: int, measure: Callable[[Tensor], Tensor]
) -> Float[Tensor, "layers heads"]:
    """``measure`` gives "batch heads" for one layer's map."""
    if not images.is_floating_point():
        raise TypeError(
            f"images are {str(images.dtype).removeprefix('torch.')}: expected floating point, "
            "normalised as the model takes them"
        )
    if not len(images):
        raise ValueError("no images came: expected at least one")

    def attempt(weights: Tensor) -> Tensor | ValueError:
        try:
            return measure(weights).sum(0)
        except ValueError as error:  # told below, where the layer's name is known
            return error

    like = next((p for p in model.parameters() if p.is_floating_point()), images)
    total = 0
    # A tokenizer may attend too (T2T-ViT), between tokens that are no patches yet.
    watched, where = (model.encoder, "encoder.") if hasattr(model, "tokenizer") else (model, "")
    with evaluating(model):
        for batch in images.split(batch_size):
            with capture_attention(watched, reduce=attempt) as layers:
                model(batch.to(like.device, like.dtype))
            for path, heads in layers.items():
                if isinstance(heads, ValueError):
                    raise ValueError(f"{where}{path}: {heads}") from heads
            counts = [len(heads) for heads in layers.values()]
            if len(set(counts)) > 1:
                raise ValueError(
                    f"layers have {counts} heads, expected as many in each: fold them one by one "
                    "with capture_attention(model, reduce=...)"
                )
            total = total + torch.stack(list(layers.values()))
    return total / len(images)
