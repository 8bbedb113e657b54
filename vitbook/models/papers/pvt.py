"""PVT v2: a pyramid in which every token sees the whole image, coarsely (Wang et al. 2022)."""

from collections.abc import Sequence
from functools import partial

from torch import nn

from vitbook.layers import (
    ConvolutionalMLP,
    NoPosition,
    NormedPatches,
    OverlappingMerging,
    SpatialReductionAttention,
)
from vitbook.layers.shapes import Size
from vitbook.models.papers.pyramid import (
    Grid,
    PyramidTransformer,
    grids_of_stages,
    pyramid,
    widths_of,
)
from vitbook.models.papers.vit import IMAGENET, Body, make_encoder


def pvt_v2(
    *,
    image_size: Size,
    patch_size: int,
    channels: int = 3,
    num_classes: int,
    stages: Sequence[Body],
    reductions: Sequence[int],
) -> PyramidTransformer:
    """Patches that overlap, keys that are few, and MLPs that look at their neighbours.

    Wang et al. 2022, section 3, table 1. Positions come from the zeros around the convolutions.

    Args:
        stages: sizes of the encoder of each stage.
        reductions: how many times smaller the map is from which a stage has its keys.

    Raises:
        ValueError: no stages, not a reduction for each, or a grid that cannot be halved so often.
    """
    if len(reductions) != len(stages):
        raise ValueError(f"{len(reductions)} reductions of {len(stages)} stages: expected one each")
    widths = widths_of(stages)
    tokenizer = NormedPatches(image_size, patch_size, channels, widths[0], lean=patch_size - 1)
    grids = grids_of_stages(tokenizer.grid_size, len(stages))
    return pyramid(
        tokenizer,
        NoPosition(tokenizer.grid_size, widths[0], num_prefix_tokens=0),
        [pvt_blocks(*sizes) for sizes in zip(stages, grids, reductions, strict=True)],
        list(map(OverlappingMerging, grids[:-1], widths[:-1], widths[1:])),
        widths,
        num_classes,
    )


def pvt_blocks(body: Body, grid_size: Grid, reduction: int) -> list[nn.Module]:
    """One stage."""
    encoder = make_encoder(
        body,
        make_attention=partial(SpatialReductionAttention, grid_size=grid_size, reduction=reduction),
        make_mlp=partial(ConvolutionalMLP, grid_size=grid_size),
    )
    return list(encoder.blocks)


def _imagenet(widths: Sequence[int], depths: Sequence[int], ratios=(8, 8, 4, 4)) -> dict:
    stages = tuple(
        Body(width, depth, num_heads, mlp_width=ratio * width)
        for width, depth, num_heads, ratio in zip(widths, depths, (1, 2, 5, 8), ratios, strict=True)
    )
    return IMAGENET | dict(patch_size=4, stages=stages, reductions=(8, 4, 2, 1))


WIDE = (64, 128, 320, 512)
PVT_V2_MODELS = {
    "pvt_v2_b0": _imagenet((32, 64, 160, 256), (2, 2, 2, 2)),
    "pvt_v2_b1": _imagenet(WIDE, (2, 2, 2, 2)),
    "pvt_v2_b2": _imagenet(WIDE, (3, 4, 6, 3)),
    "pvt_v2_b3": _imagenet(WIDE, (3, 4, 18, 3)),
    "pvt_v2_b4": _imagenet(WIDE, (3, 8, 27, 3)),
    "pvt_v2_b5": _imagenet(WIDE, (3, 6, 40, 3), ratios=(4, 4, 4, 4)),
}

MODELS = {pvt_v2: PVT_V2_MODELS}
