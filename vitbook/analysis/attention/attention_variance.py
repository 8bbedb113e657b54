"""Three ways to attend told apart: by offset, by absolute place, by the content of the keys."""

from functools import lru_cache
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.analysis.attention.offsets import check_heads, check_weights, offsets, sum_by_offset
from vitbook.analysis.capture.calls import AttentionCall
from vitbook.analysis.capture.layout import Pair, check_map, token_layout
from vitbook.analysis.capture.running import takes_images
from vitbook.analysis.capture.streaming import fold_attention

# What the last axis of the shares holds.
PARTS = ("offset", "place", "content", "rest")


class VarianceParts(NamedTuple):
    """Shares of the variance of a head's attention, in the order of :data:`PARTS`, and how much.

    The shares sum to 1. ``variance`` is the mean square of the centred weights in units of even
    weight, or of the centred log weights: where it is next to nothing, shares of it say nothing.
    """

    shares: Float[Tensor, "*heads parts"]
    variance: Float[Tensor, "*heads"]


def variance_parts(
    weights: Float[Tensor, "images heads queries keys"],
    grid_size: Pair,
    num_prefix_tokens: int,
    log: bool = False,
) -> VarianceParts:
    r"""How much of a head's attention offset, place and content explain, and what is left.

    Prefix tokens are cut, rows are brought back to sum 1, and :math:`x_{mij}` is what query
    :math:`i` gives to key :math:`j` in image :math:`m`, less its row's mean. It has four parts,
    each row of each of them with mean 0:

    .. math::
        x_{mij} = \underbrace{f_{j - i}}_{\text{offset}} + \underbrace{t_{ij}}_{\text{place}} +
                  \underbrace{c_{mj}}_{\text{content}} + r_{mij}

    :math:`f + t` is what all images share. Offset is nested in it and comes first, as the simpler
    of the two: :math:`f` is the least-squares fit by a function of the offset, :math:`t` what that
    fit leaves. (A preference that grows evenly down or across the grid is both; it counts as
    offset.) :math:`c` is what all queries of one image share and the other images do not. The rest
    needs query, key and image: whether the contents of the two match.

    The shares are components of variance, with images drawn at random. What is shared is estimated
    by products of two different images, and of two different queries (the method of moments), so
    that maps without structure have 0 on average and a share may come out a little below it. Plain
    sums of squares over M images would call 1 / M of any content place. What photographers put in
    the middle of every image is place, too.

    Shares are "heads parts" and the variance is "heads". Even weight has no variance: its shares
    are nan.

    Args:
        weights: attention after the softmax, prefix tokens first; of several images.
        grid_size: (rows, columns) of the patches.
        num_prefix_tokens: 1 for a class token, 2 with a distillation token, ...
        log: share out the logarithms of the weights: the scores, up to a number for each row. Parts
            that add up in the scores are then told apart exactly, also at the edges of the grid,
            where the softmax bends an offset; but a weight of 1e-9 beside one of 1e-6 counts as
            much as .9 beside 9e-4. By default the weights themselves, which mix the values.

    Raises:
        ValueError: one image, which cannot tell place from content; a grid of one patch; a map that
            is not tokens by tokens, or of another number of tokens than prefix and grid make;
            weights that are NaN or negative, rows without weight on patches, and weights of 0
            where their logarithm is asked for.
    """
    check_map(weights.shape, grid_size, num_prefix_tokens)
    _check_several(len(weights), grid_size)
    sums = _Sums(grid_size, log)
    for image in weights:
        sums.add(image[..., num_prefix_tokens:, num_prefix_tokens:])
    return sums.parts()


@takes_images()
def head_variance_parts(
    model: nn.Module,
    images: Float[Tensor, "images channels height width"],
    *,
    log: bool = False,
    batch_size: int = 8,
    num_prefix_tokens: int | None = None,
    grid_size: Pair | None = None,
) -> VarianceParts:
    """:func:`variance_parts` of every head of a model: shares "layers heads parts".

    Each map is folded as it is made: memory grows with the layers (one mean map a head) and not
    with the images.

    Args:
        model: any that :func:`vitbook.analysis.capture_attention` knows; it runs in evaluation mode
            without gradients.
        images: normalised as the model takes them; several, and different ones.
        log: as in :func:`variance_parts`.
        batch_size: images at a time.
        num_prefix_tokens: for a model that does not say it.
        grid_size: (rows, columns) of patches, for a model that does not say it.

    Raises:
        ValueError: what :func:`variance_parts` refuses, with the layer's name; layers with
            different numbers of heads; a model that does not say its grid or prefix tokens.
        TypeError: images that are not floating point.
        RuntimeError: no attention that :func:`vitbook.analysis.capture_attention` knows ran.

    Example:
        >>> import torch
        >>> import vitbook
        >>> from vitbook.analysis import head_variance_parts
        >>> model = vitbook.create_model("vit_micro_patch2_8")
        >>> parts = head_variance_parts(model, torch.rand(3, 1, 8, 8))
        >>> tuple(parts.shares.shape)  # layers, heads, and offset, place, content, rest
        (4, 4, 4)
    """
    grid_size, prefix = token_layout(
        model, images, grid_size=grid_size, num_prefix_tokens=num_prefix_tokens
    )
    _check_several(len(images), grid_size)
    found: dict[str, _Sums] = {}

    def fold(call: AttentionCall) -> None:
        check_map(call.shape, grid_size, prefix)
        sums = found.setdefault(call.path, _Sums(grid_size, log))
        for m in range(call.shape[0]):
            sums.add(call.weights(slice(m, m + 1))[0, :, prefix:, prefix:])

    for _ in fold_attention(model, images, batch_size, fold):
        pass
    layers = [sums.parts() for sums in found.values()]
    check_heads([len(parts.variance) for parts in layers])
    return VarianceParts(*map(torch.stack, zip(*layers, strict=True)))


class _Sums:
    """Of the maps of several images, what their parts are made of."""

    def __init__(self, grid_size: Pair, log: bool) -> None:
        self.grid_size, self.log, self.images = grid_size, log, 0
        self.maps = self.total = self.fits = self.by_offset = self.keys = 0

    def add(self, weights: Float[Tensor, "heads queries keys"]) -> None:
        """One image's weights on patches."""
        centred = _centred(weights, self.log)
        by_offset = sum_by_offset(centred, self.grid_size)
        squares = centred.square().sum((-2, -1))
        self.images += 1
        self.maps = self.maps + centred
        self.total = self.total + squares
        self.by_offset = self.by_offset + by_offset
        self.fits = self.fits + _fitted(by_offset, self.grid_size)
        # Products of two different queries: all products less those of a query with itself.
        self.keys = self.keys + centred.sum(-2).square().sum(-1) - squares

    def parts(self) -> VarianceParts:
        m, n = self.images, self.maps.shape[-1]
        pairs = m * (m - 1)
        everything = self.maps.square().sum((-2, -1))
        shared = (everything - self.total) / pairs  # products of two different images
        offset = (_fitted(self.by_offset, self.grid_size) - self.fits) / pairs
        elsewhere = self.maps.sum(-2).square().sum(-1) - everything - self.keys
        content = (self.keys / m - elsewhere / pairs) / (n - 1)
        whole = self.total / m
        rest = whole - shared - content
        shares = torch.stack([offset, shared - offset, content, rest], dim=-1) / whole[..., None]
        return VarianceParts(shares, whole / n**2)


def _centred(weights: Tensor, log: bool) -> Float[Tensor, "heads queries keys"]:
    check_weights(weights)
    weights = weights.to(torch.promote_types(weights.dtype, torch.float32))
    if log and not (weights > 0).all():
        raise ValueError("weights of 0 have no logarithm: share out the weights, log=False")
    if log:
        scores = weights.log()
        return scores - scores.mean(-1, keepdim=True)
    on_patches = weights.sum(-1, keepdim=True)
    if not (on_patches > 0).all():
        raise ValueError("a row without weight on patches: expected some in every row")
    return weights * weights.shape[-1] / on_patches - 1


def _fitted(by_offset: Float[Tensor, "heads offsets"], grid_size: Pair) -> Float[Tensor, "heads"]:
    """Squares of the least-squares fit of centred rows by a function of the offset, summed."""
    flat = by_offset.double().cpu()
    solved = torch.cholesky_solve(flat.T, _factor(grid_size)).T
    return (flat * solved).sum(-1).to(by_offset)


@lru_cache(maxsize=4)
def _factor(grid_size: Pair) -> Float[Tensor, "offsets offsets"]:
    """Cholesky factor of the products of all offsets' maps, 1 where a pair is so, rows centred."""
    rows, columns = grid_size
    n, number = rows * columns, (2 * rows - 1) * (2 * columns - 1)
    of_pair = offsets(grid_size, torch.device("cpu")).view(n, n)
    seen = torch.zeros(n, number, dtype=torch.float64).scatter_(1, of_pair, 1)
    products = seen.sum(0).diag() - seen.T @ seen / n
    # All offsets together are a constant, which centred rows have not: filled in, nothing changes.
    return torch.linalg.cholesky(products + n / number)


def _check_several(images: int, grid_size: Pair) -> None:
    if images < 2:
        raise ValueError(
            f"{images} image: what belongs to place and what to content is told apart by what "
            "images share; expected at least 2, better 8"
        )
    if grid_size[0] * grid_size[1] < 2:
        raise ValueError("a grid of one patch: expected at least two to choose from")
