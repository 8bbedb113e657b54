"""Hiera: a pyramid of plain blocks alone (Ryali et al. 2023)."""

from collections.abc import Sequence

from torch import nn

from vitbook.errors import is_whole_number
from vitbook.layers import (
    MLP,
    BlockLocalSelfAttention,
    EncoderBlock,
    LeaningPatches,
    LearnedPosition,
    NormedMeanHead,
    QueryPoolingAttention,
    QueryPoolingBlock,
    SelfAttention,
)
from vitbook.layers.shapes import Size
from vitbook.models.papers.pyramid import (
    Grid,
    PyramidTransformer,
    doubling,
    grids_of_stages,
    pyramid,
    widths_of,
)
from vitbook.models.papers.vit import IMAGENET, Body

LOCAL = 2  # so many stages attend inside mask units, later ones to the whole map


def hiera(
    *,
    image_size: Size,
    patch_size: int,
    channels: int = 3,
    num_classes: int,
    stages: Sequence[Body],
    mask_unit: int = 8,
) -> PyramidTransformer:
    """A learned table of places, plain blocks, and maxima where a stage begins; nothing else.

    Ryali et al. 2023, section 3.2 and table 2. Two stages attend inside mask units, the squares
    that masked pretraining hides; they do not move. The first block of a stage attends as the
    stage before. What Swin and MViT have besides (shifts,
    relative positions, convolutions) is left out.

    Args:
        stages: sizes of the encoder of each stage.
        mask_unit: side of one in tokens of the first map.

    Raises:
        ValueError: a grid that mask units do not divide, or that cannot be halved so often.
    """
    widths = widths_of(stages)
    tokenizer = LeaningPatches(image_size, patch_size, channels, widths[0], lean=patch_size - 1)
    grids = grids_of_stages(tokenizer.grid_size, len(stages))
    _check_units(grids[0], mask_unit, tokenizer.patch)
    units = [(mask_unit >> number,) * 2 for number in range(LOCAL)] + grids[LOCAL:]
    built = [
        [_block(stage, grid, unit if number < LOCAL else None) for _ in range(stage.depth)]
        for number, (stage, grid, unit) in enumerate(zip(stages, grids, units, strict=False))
    ]
    for number in range(1, len(stages)):
        built[number][0] = _first_block(
            stages[number - 1].width, stages[number], grids[number - 1], units[number - 1]
        )
    return pyramid(
        tokenizer,
        LearnedPosition(tokenizer.grid_size, widths[0], num_prefix_tokens=0),
        built,
        [None] * (len(stages) - 1),
        widths,
        num_classes,
        make_norm=nn.Identity,
        make_head=NormedMeanHead,
    )


def _check_units(grid: Grid, mask_unit: int, patch: Grid) -> None:
    # Halved where each stage after a local one begins.
    if not is_whole_number(mask_unit) or mask_unit < 1 or mask_unit % 2**LOCAL:
        raise ValueError(f"mask units of {mask_unit}: expected a multiple of {2**LOCAL} tokens")
    if any(side % mask_unit for side in grid):
        high, wide = (mask_unit * side for side in patch)
        raise ValueError(
            f"a grid of {grid[0]}x{grid[1]} tokens is not divisible into mask units of {mask_unit}x"
            f"{mask_unit}: use images whose height is a multiple of {high} pixels and whose width "
            f"is one of {wide}, or another mask unit"
        )


def _block(body: Body, grid: Grid, unit: Grid | None) -> EncoderBlock:
    sizes = body.width, body.num_heads, body.qkv_bias
    attention = (
        SelfAttention(*sizes)
        if unit is None
        else BlockLocalSelfAttention(*sizes, grid_size=grid, block_size=unit)
    )
    return EncoderBlock(attention, MLP(body.width, body.mlp_width), body.width)


def _first_block(width: int, body: Body, grid: Grid, unit: Grid) -> QueryPoolingBlock:
    """Of a stage: it attends as the stage before it does, on that map."""
    attention = QueryPoolingAttention(
        width,
        body.num_heads,
        body.qkv_bias,
        out_width=body.width,
        grid_size=grid,
        block_size=unit,
    )
    return QueryPoolingBlock(attention, MLP(body.width, body.mlp_width), width, body.width)


def _imagenet(width: int, num_heads: int, depths: Sequence[int]) -> dict:
    first = Body(width, depth=depths[0], num_heads=num_heads, mlp_width=4 * width)
    return IMAGENET | dict(patch_size=4, stages=doubling(first, depths))


HIERA_MODELS = {
    "hiera_tiny_224": _imagenet(96, 1, (1, 2, 7, 2)),
    "hiera_small_224": _imagenet(96, 1, (1, 2, 11, 2)),
    "hiera_base_224": _imagenet(96, 1, (2, 3, 16, 3)),
    "hiera_base_plus_224": _imagenet(112, 2, (2, 3, 16, 3)),
    "hiera_large_224": _imagenet(144, 2, (2, 6, 36, 4)),
    "hiera_huge_224": _imagenet(256, 4, (2, 6, 36, 4)),
}

MODELS = {hiera: HIERA_MODELS}
