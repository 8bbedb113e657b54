"""What a patch gives to the patch at each offset from it: the kernel that a head looks with."""

from functools import lru_cache
from typing import NamedTuple

import torch
from einops import rearrange
from jaxtyping import Float, Int64
from torch import Tensor, nn

from vitbook.analysis.capture.calls import AttentionCall
from vitbook.analysis.capture.layout import Pair, check_map, token_layout
from vitbook.analysis.capture.running import takes_images
from vitbook.analysis.capture.streaming import fold_attention


class OffsetProfile(NamedTuple):
    """Mean weight by offset: rows 2 * rows - 1, columns 2 * columns - 1, no offset in the middle.

    ``weight[..., rows - 1 + dy, columns - 1 + dx]`` is what a patch gives to the patch ``dy`` rows
    below it and ``dx`` columns to its right; ``count`` says how many pairs of patches are so.
    """

    weight: Float[Tensor, "*heads down across"]
    count: Int64[Tensor, "down across"]


def offset_profile(
    weights: Float[Tensor, "images heads queries keys"],
    grid_size: Pair,
    num_prefix_tokens: int,
) -> OffsetProfile:
    """Mean weight that a patch gives to the patch at each offset from it, by head.

    Over all images and all pairs of patches that lie so; an offset as wide as the grid has one
    pair only. Prefix tokens are cut, and the rows are not brought back to sum 1.

    Arguments and errors are those of :func:`vitbook.analysis.attention_distance`.
    """
    check_map(weights.shape, grid_size, num_prefix_tokens)
    patches = weights[..., num_prefix_tokens:, num_prefix_tokens:].mean(0)
    return _profile(patches, grid_size)


@takes_images()
def head_offset_profiles(
    model: nn.Module,
    images: Float[Tensor, "images channels height width"],
    *,
    batch_size: int = 8,
    num_prefix_tokens: int | None = None,
    grid_size: Pair | None = None,
) -> OffsetProfile:
    """:func:`offset_profile` of every head of a model: weights "layers heads down across".

    Arguments and errors are those of :func:`vitbook.analysis.mean_attention_distance`.
    """
    grid_size, prefix = token_layout(
        model, images, grid_size=grid_size, num_prefix_tokens=num_prefix_tokens
    )

    def fold(call: AttentionCall) -> OffsetProfile:
        check_map(call.shape, grid_size, prefix)
        total = 0
        for m in range(call.shape[0]):
            total = total + call.weights(slice(m, m + 1))[0, :, prefix:, prefix:]
        return _profile(total, grid_size)

    total = 0
    for layers in fold_attention(model, images, batch_size, fold):
        check_heads([len(profile.weight) for profile in layers.values()])
        total = total + torch.stack([profile.weight for profile in layers.values()])
        count = next(iter(layers.values())).count
    return OffsetProfile(total / len(images), count)


@lru_cache(maxsize=4)
def offsets(grid_size: Pair, device: torch.device) -> Int64[Tensor, "pairs"]:
    """Which offset each pair (query, key) has, numbered row by row from the top left."""
    rows, columns = grid_size
    place = torch.arange(rows * columns, device=device)
    y, x = place // columns, place % columns
    dy, dx = (axis[None, :] - axis[:, None] for axis in (y, x))
    return ((dy + rows - 1) * (2 * columns - 1) + dx + columns - 1).flatten()


def sum_by_offset(
    maps: Float[Tensor, "heads queries keys"], grid_size: Pair
) -> Float[Tensor, "heads offsets"]:
    """Each map summed over the pairs of patches that have one offset."""
    rows, columns = grid_size
    sums = maps.new_zeros(len(maps), (2 * rows - 1) * (2 * columns - 1))
    return sums.index_add_(1, offsets(grid_size, maps.device), maps.flatten(1))


def _profile(patches: Float[Tensor, "heads queries keys"], grid_size: Pair) -> OffsetProfile:
    check_weights(patches)
    count = sum_by_offset(torch.ones_like(patches[:1]), grid_size)
    rows = 2 * grid_size[0] - 1
    on_grid = "heads (down across) -> heads down across"
    profile = rearrange(sum_by_offset(patches, grid_size) / count, on_grid, down=rows)
    return OffsetProfile(profile, rearrange(count, on_grid, down=rows)[0].long())


def check_weights(weights: Tensor) -> None:
    """Refuse what comes from no softmax.

    Raises:
        ValueError: NaN, infinite or negative weights.
    """
    if not ((weights >= 0) & weights.isfinite()).all():
        raise ValueError(
            "weights are NaN, infinite or negative: expected attention after its softmax"
        )


def check_heads(counts: list[int]) -> None:
    """Refuse layers that cannot be stacked.

    Raises:
        ValueError: they have different numbers of heads.
    """
    if len(set(counts)) > 1:
        raise ValueError(
            f"layers have {counts} heads, expected as many in each: fold them one by one "
            "with capture_attention(model, reduce=...)"
        )
