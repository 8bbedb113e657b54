"""Swin: a pyramid whose attention stays in windows that move (Liu et al. 2021)."""

from collections.abc import Sequence

from torch import nn

from vitbook.layers import (
    MLP,
    EncoderBlock,
    NoPosition,
    NormedPatches,
    PatchMerging,
    WindowSelfAttention,
)
from vitbook.layers.shapes import Size
from vitbook.layers.tokenizers import pair
from vitbook.models.papers.pyramid import (
    FIRST,
    Grid,
    PyramidTransformer,
    doubling,
    grids_of_stages,
    pyramid,
    widths_of,
)
from vitbook.models.papers.vit import CIFAR10, IMAGENET, Body


def swin(
    *,
    image_size: Size,
    patch_size: Size,
    channels: int = 3,
    num_classes: int,
    stages: Sequence[Body],
    window_size: Size,
) -> PyramidTransformer:
    """Windows of one size, shifted by half in every second block; 2 x 2 tokens merge at each stage.

    Liu et al. 2021, section 3.1 and figure 3. Positions are the windows' biases alone. The
    paper pads a grid that its windows do not divide; here such a grid is refused.

    Args:
        stages: sizes of the encoder of each stage.
        window_size: in tokens; where the grid is no larger, the window is the grid and stays.

    Raises:
        ValueError: a grid that windows do not divide, or that cannot be halved so often.
    """
    widths = widths_of(stages)
    tokenizer = NormedPatches(image_size, patch_size, channels, widths[0])
    grids, window = grids_of_stages(tokenizer.grid_size, len(stages)), pair(window_size, "window")
    _check_windows(grids, window, tokenizer.patch)
    return pyramid(
        tokenizer,
        NoPosition(tokenizer.grid_size, widths[0], num_prefix_tokens=0),
        [
            [
                swin_block(stage, grid, window, shifted=number % 2 == 1)
                for number in range(stage.depth)
            ]
            for stage, grid in zip(stages, grids, strict=True)
        ],
        list(map(PatchMerging, grids[:-1], widths[:-1], widths[1:])),
        widths,
        num_classes,
        nn.LayerNorm,
    )


def _check_windows(grids: Sequence[Grid], window: Grid, patch: Grid) -> None:
    for grid in grids:
        if any(side > one and side % one for side, one in zip(grid, window, strict=True)):
            (rows, columns), (high, wide) = grid, window
            # The last grid is then whole windows, and so are those before it.
            fit = [a * b * 2 ** (len(grids) - 1) for a, b in zip(patch, window, strict=True)]
            raise ValueError(
                f"a grid of {rows}x{columns} tokens is not divisible into windows of {high}x"
                f"{wide}: use images whose height is a multiple of {fit[0]} pixels and whose width "
                f"is one of {fit[1]}, or another window"
            )


def swin_block(body: Body, grid_size: Grid, window: Grid, shifted: bool) -> EncoderBlock:
    """A block of the encoder whose attention stays in windows (figure 3b, equation 3)."""
    sides = list(zip(window, grid_size, strict=True))
    attention = WindowSelfAttention(
        body.width,
        body.num_heads,
        body.qkv_bias,
        grid_size=grid_size,
        window_size=tuple(map(min, sides)),
        shift=tuple(side // 2 if shifted and side < whole else 0 for side, whole in sides),
    )
    return EncoderBlock(attention, MLP(body.width, body.mlp_width), body.width, nn.LayerNorm)


def _imagenet(width: int, depth: int, window: int, pixels: int) -> dict:
    """Heads are 32 wide, MLPs four times as wide as tokens (section 3.3)."""
    first = Body(width, depth=2, num_heads=width // 32, mlp_width=4 * width)
    stages = doubling(first, (2, 2, depth, 2))
    return IMAGENET | dict(image_size=pixels, patch_size=4, stages=stages, window_size=window)


# Windows spare the mini some attention; wider MLPs bring it to the multiply-adds of the pyramids.
MINI_STAGES = doubling(Body(64, 4, FIRST.num_heads, mlp_width=144), depths=(4, 6, 4))

SWIN_MODELS = {
    "swin_tiny_patch4_window7_224": _imagenet(96, 6, 7, 224),
    "swin_small_patch4_window7_224": _imagenet(96, 18, 7, 224),
    "swin_base_patch4_window7_224": _imagenet(128, 18, 7, 224),
    "swin_base_patch4_window12_384": _imagenet(128, 18, 12, 384),
    "swin_large_patch4_window7_224": _imagenet(192, 18, 7, 224),
    "swin_large_patch4_window12_384": _imagenet(192, 18, 12, 384),
    "swin_mini_patch4_window4_32": CIFAR10 | dict(stages=MINI_STAGES, window_size=4),
}

MODELS = {swin: SWIN_MODELS}
