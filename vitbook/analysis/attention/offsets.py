"""Pairs of patches by the offset from the one that asks to the other."""

from functools import lru_cache

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from vitbook.analysis.capture.layout import Pair


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
