"""Vision Transformers with the stages of a convolutional network: the map shrinks, tokens widen."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from torch import nn

from vitbook.layers import (
    LearnedPosition,
    MeanPoolHead,
    PatchEmbedding,
    PyramidEncoder,
    layer_norm,
)
from vitbook.layers.shapes import Size
from vitbook.layers.shrinking import halved
from vitbook.models.papers.mean_pool import vit_gap
from vitbook.models.papers.shrinking import by_averaging, by_convolution, by_mixing
from vitbook.models.papers.vit import CIFAR10, MINI_BODY, Body, VisionTransformer, make_encoder

Grid = tuple[int, int]


class PyramidTransformer(VisionTransformer):
    """A Vision Transformer whose features are a smaller map than its patches.

    As of a convolutional network, grid and step are those of the last map.
    """

    @property
    def grid_size(self) -> Grid:
        """(rows, columns) of the features."""
        return self.encoder.grid_size

    @property
    def patch_size(self) -> int:
        """Pixels that a feature steps."""
        return self.tokenizer.image_size[0] // self.grid_size[0]


def pyramid(
    tokenizer: nn.Module,
    position: nn.Module,
    stages: Sequence[Sequence[nn.Module]],
    shrinks: Sequence[nn.Module | None],
    widths: Sequence[int],
    num_classes: int,
    make_norm: Callable[[int], nn.Module] = layer_norm,
    make_head: Callable[[int, int], nn.Module] = MeanPoolHead,
) -> PyramidTransformer:
    """Stages of blocks behind a tokenizer; the mean of the last map is classified.

    Args:
        stages, shrinks: as in :class:`~vitbook.layers.PyramidEncoder`.
        widths: of the tokens of each stage.
        make_norm: of the last norm.
        make_head: called with the last width and ``num_classes``.
    """
    last = grids_of_stages(tokenizer.grid_size, len(stages))[-1]
    return PyramidTransformer(
        tokenizer=tokenizer,
        position=position,
        encoder=PyramidEncoder(stages, shrinks, widths[-1], last, make_norm),
        head=make_head(widths[-1], num_classes),
        width=widths[0],
        num_prefix_tokens=0,
    )


def widths_of(stages: Sequence[Body]) -> list[int]:
    """How wide a token is in each stage.

    Raises:
        ValueError: no stages.
    """
    if not stages:
        raise ValueError("no stages: expected the sizes of at least one")
    return [stage.width for stage in stages]


def grids_of_stages(grid_size: Grid, number: int) -> list[Grid]:
    """The grid of each stage: every one is half of the one before, in both directions.

    Raises:
        ValueError: a grid that cannot be halved so often.
    """
    rows, columns = grid_size
    if rows % (step := 2 ** (number - 1)) or columns % step:
        raise ValueError(
            f"a grid of {rows}x{columns} tokens, to be halved {number - 1} times: expected sides "
            f"that {step} divides; use images of a multiple of {step} patches in either direction"
        )
    grids = [(rows, columns)]
    while len(grids) < number:
        grids.append(halved(grids[-1]))
    return grids


def doubling(first: Body, depths: Sequence[int]) -> tuple[Body, ...]:
    """Stages that double their width, as a convolutional network does.

    A quarter of the tokens and four times the weights: every block costs the same, attention aside.

    Args:
        first: the first stage; heads stay as wide, MLPs as many times wider.
        depths: blocks of each stage.
    """
    return tuple(
        replace(
            first,
            width=first.width * 2**number,
            num_heads=first.num_heads * 2**number,
            mlp_width=first.mlp_width * 2**number,
            depth=depth,
        )
        for number, depth in enumerate(depths)
    )


def pyramid_vit(
    *,
    image_size: Size,
    patch_size: Size,
    channels: int = 3,
    num_classes: int,
    stages: Sequence[Body],
    make_shrink: Callable[..., nn.Module],
) -> PyramidTransformer:
    """Plain blocks on a map that shrinks: 2 x 2 tokens become one, twice as wide.

    PVT (Wang et al. 2021, figure 3) is the published kind.

    Args:
        stages: sizes of the encoder of each stage.
        make_shrink: called with ``grid_size, width, out_width``: :func:`.shrinking.by_convolution`,
            :func:`by_mixing_and_widening` or :func:`by_averaging_and_widening`.
    """
    widths = widths_of(stages)
    tokenizer = PatchEmbedding(image_size, patch_size, channels, widths[0])
    grids = grids_of_stages(tokenizer.grid_size, len(stages))
    return pyramid(
        tokenizer,
        LearnedPosition(tokenizer.grid_size, widths[0], num_prefix_tokens=0),
        [list(make_encoder(stage).blocks) for stage in stages],
        list(map(make_shrink, grids[:-1], widths[:-1], widths[1:])),
        widths,
        num_classes,
    )


def by_mixing_and_widening(grid_size: Grid, width: int, out_width: int) -> nn.Module:
    """One learned mixture of all tokens for each that is kept, then a linear layer on each."""
    return nn.Sequential(by_mixing(grid_size, width, width), _widening(width, out_width))


def by_averaging_and_widening(grid_size: Grid, width: int, out_width: int) -> nn.Module:
    """The mean of 2 x 2 tokens, then a linear layer on each."""
    return nn.Sequential(by_averaging(grid_size, width, width), _widening(width, out_width))


def _widening(width: int, out_width: int) -> nn.Linear:
    layer = nn.Linear(width, out_width)
    # No shortcut leads around it: what goes out is as long as what comes in.
    nn.init.trunc_normal_(layer.weight, std=width**-0.5)
    nn.init.zeros_(layer.bias)
    return layer


# 64 tokens, then 16, then 4, as wide as 64, 128, 256. A fourth stage, 512 wide, would have one
# token, which attends to nobody; a fifth, 1,024 wide, has four tokens in images of 128 pixels. The
# multiply-adds are those of `vit_gap_mini_patch4_32`, 96 wide and 6 deep; the parameters are seven
# times as many, as late weights are used for few tokens. The second plain model, as deep as the
# pyramid and as wide as its first stage, tells depth from shape.
FIRST = Body(width=64, depth=4, num_heads=4, mlp_width=130, qkv_bias=False)
STAGES = doubling(FIRST, depths=(4, 6, 4))
WAYS = {
    "linear": by_mixing_and_widening,
    "conv": by_convolution,
    "mean": by_averaging_and_widening,
}
MINI_PYRAMIDS = {
    f"pyramid_vit_{name}_mini_patch4_32": CIFAR10 | dict(stages=STAGES, make_shrink=way)
    for name, way in WAYS.items()
}
# As B. Yu's slides sketch it: from 32 x 32 tokens, 64 wide, to 4 x 4, 1,024 wide, whose mean is
# read. The widths between, the depth and the heads are ours.
SKETCHED = tuple(
    Body(width=width, depth=3, num_heads=width // 16, mlp_width=4 * width)
    for width in (64, 160, 400, 1024)
)
PYRAMID_VIT_MODELS = MINI_PYRAMIDS | {
    "pyramid_vit_conv_patch8_256": dict(
        image_size=256, patch_size=8, num_classes=1000, stages=SKETCHED, make_shrink=by_convolution
    )
}
DEEP = replace(MINI_BODY, width=64, depth=14, num_heads=4, mlp_width=96)

MODELS = {
    pyramid_vit: PYRAMID_VIT_MODELS,
    vit_gap: {"vit_gap_mini_d14_patch4_32": CIFAR10 | dict(body=DEEP)},
}
