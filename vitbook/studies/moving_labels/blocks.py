"""Blocks of patches that are hidden, and the context that is left (Assran et al. 2023)."""

import math
from typing import NamedTuple

import torch
from einops import rearrange
from jaxtyping import Int64
from torch import Tensor

BLOCKS = 4
SCALES = (0.15, 0.2)  # share of the grid in a block
ASPECTS = (0.75, 1.5)  # height over width


class Blocks(NamedTuple):
    """Which patches of each image are asked for, and which are shown.

    Attributes:
        targets: places of each block, row by row; blocks of one image may overlap.
        context: places outside of all blocks, in order; equally many of each image.
    """

    targets: Int64[Tensor, "batch blocks inside"]
    context: Int64[Tensor, "batch context"]


def choose_blocks(batch: int, grid: tuple[int, int], generator: torch.Generator) -> Blocks:
    """Draw four blocks of each image, of one size in a batch, and what is left beside them.

    I-JEPA (Assran et al. 2023), section 3 and appendix A.1: blocks of 0.15 to 0.2 of the grid and
    sides of 0.75 to 1.5; less where a grid is small, as four never hold all of it. The context is
    what no block holds; an image that has more of it than another of its batch leaves some out by
    chance, where the authors' code leaves out the last. The paper also cuts the context to a block
    of 0.85 to 1 of the grid; here it is the whole grid.

    Args:
        grid: (rows, columns).
        generator: on the CPU.

    Raises:
        ValueError: a grid of fewer than 3 x 3 patches, of which the blocks could hold all.
    """
    rows, columns = grid
    if min(grid) < 3:
        raise ValueError(
            f"blocks in a grid of {rows} x {columns} patches: expected 3 x 3 at least, so that a "
            "context is left; take smaller patches"
        )
    height, width = block_size(grid, generator)
    down, right = (
        torch.randint(0, most + 1, (batch, BLOCKS), generator=generator)
        for most in (rows - height, columns - width)
    )
    inside = torch.arange(height)[:, None] * columns + torch.arange(width)
    targets = (down * columns + right)[..., None] + rearrange(inside, "h w -> (h w)")
    shown = torch.ones(batch, rows * columns, dtype=torch.bool)
    shown.scatter_(1, targets.flatten(1), False)
    fewest = int(shown.sum(dim=1).min())
    order = torch.rand(shown.shape, generator=generator).masked_fill(~shown, 2.0).argsort(dim=1)
    return Blocks(targets, order[:, :fewest].sort(dim=1).values)


def block_size(grid: tuple[int, int], generator: torch.Generator) -> tuple[int, int]:
    """Height and width of a block, in patches; four of them never hold the whole grid."""
    rows, columns = grid
    (low, high), (flat, tall) = SCALES, ASPECTS
    chance = torch.rand(2, generator=generator).tolist()
    area = int(rows * columns * (low + (high - low) * chance[0]))
    aspect = flat + (tall - flat) * chance[1]
    height = min(max(1, round(math.sqrt(area * aspect))), rows - 1)
    width = min(max(1, round(math.sqrt(area / aspect))), columns - 1)
    while BLOCKS * height * width >= rows * columns:  # a small grid, where rounding counts
        height, width = (height - 1, width) if height > width else (height, width - 1)
    return height, width
