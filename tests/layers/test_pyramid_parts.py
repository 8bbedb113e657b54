"""Parts of pyramids against loops: windows and their shift, merging, fewer keys, MLPs that look."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from vitbook.analysis import capture_attention
from vitbook.layers import (
    ConvolutionalMLP,
    EncoderBlock,
    NormedPatches,
    OverlappingMerging,
    PatchMerging,
    PyramidEncoder,
    RelativePositionBias,
    SpatialReductionAttention,
    WindowSelfAttention,
)
from vitbook.layers.shrinking import halved

WIDTH, HEADS = 12, 3


@torch.no_grad()
def far_from_its_start(layer):
    for parameter in layer.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.3)
    return layer


def windows(grid_size=(4, 6), window_size=(2, 3), shift=(0, 0)):
    torch.manual_seed(0)
    layer = WindowSelfAttention(
        WIDTH, HEADS, grid_size=grid_size, window_size=window_size, shift=shift
    )
    tokens = torch.randn(2, grid_size[0] * grid_size[1], WIDTH)
    return far_from_its_start(layer), tokens


def naive_windows(layer, tokens):
    """Attention over the whole grid, cut to the windows of the grid that nobody has rolled."""
    (rows, columns), (down, across), (below, right) = layer.grid_size, layer.block_size, layer.shift
    spots = [(y, x) for y in range(rows) for x in range(columns)]
    q, k, v = layer.qkv(tokens).chunk(3, dim=-1)
    out, d = torch.zeros_like(tokens), WIDTH // HEADS
    for image in range(len(tokens)):
        for h in range(HEADS):
            part = slice(h * d, (h + 1) * d)
            for i, (y, x) in enumerate(spots):
                home = (y - below) // down, (x - right) // across
                scores = {
                    j: q[image, i, part] @ k[image, j, part] / d**0.5
                    + layer.bias.table[
                        (y - b + down - 1) * (2 * across - 1) + (x - a + across - 1), h
                    ]
                    for j, (b, a) in enumerate(spots)
                    if ((b - below) // down, (a - right) // across) == home
                }
                weights = torch.stack(list(scores.values())).softmax(0)
                out[image, i, part] = weights @ v[image, list(scores), part]
    return layer.projection(out)


@pytest.mark.parametrize("shift", [(0, 0), (1, 1), (0, 2), (1, 0)])
@torch.no_grad()
def test_windows_are_those_of_loops(shift):
    layer, tokens = windows(shift=shift)
    assert torch.allclose(layer(tokens), naive_windows(layer, tokens), atol=1e-5)


def test_the_shifts_mask_on_4_x_4_by_hand():
    """Rolled by one: the last row and column came from the other side of the image."""
    layer, _ = windows(grid_size=(4, 4), window_size=2, shift=(1, 1))
    same = layer.neighbours[:, 0].int().tolist()
    assert same[0] == [[1] * 4] * 4  # an inner window is whole
    left_and_right = [[1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1]]
    above_and_below = [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]
    assert same[1] == left_and_right and same[2] == above_and_below
    assert same[3] == torch.eye(4).int().tolist()  # four corners of the image


@torch.no_grad()
def test_every_windows_rows_sum_to_one_and_masked_pairs_are_zero():
    layer, tokens = windows(grid_size=(4, 4), window_size=2, shift=(1, 1))
    with capture_attention(layer) as maps:
        seen = layer(tokens)
    (found,) = maps.values()
    assert torch.equal(seen, layer(tokens))
    assert found.shape == (2 * 4, HEADS, 4, 4)
    assert torch.allclose(found.sum(-1), torch.ones(8, HEADS, 4))
    seams = ~layer.neighbours.expand(4, HEADS, 4, 4).repeat(2, 1, 1, 1)
    assert (found[seams] == 0).all() and (found[~seams] > 0).all()


@torch.no_grad()
def test_a_shift_lets_windows_hear_of_each_other():
    def heard(*shifts):
        layers = [windows(grid_size=(4, 4), window_size=2, shift=shift)[0] for shift in shifts]
        tokens = torch.randn(1, 16, WIDTH)
        other = tokens.clone()
        other[:, 5] += 1
        for layer in layers:
            tokens, other = tokens + layer(tokens), other + layer(other)
        return int((tokens != other).any(-1).sum())

    assert heard((0, 0), (0, 0)) == 4
    assert heard((0, 0), (1, 1)) == 9  # rows 0 to 2, columns 0 to 2
    assert heard((0, 0), (1, 1), (0, 0)) == 16


def test_a_bias_is_looked_up_by_rows_and_columns():
    bias = RelativePositionBias((2, 3), 1)
    with torch.no_grad():
        bias.table.copy_(torch.arange(15.0)[:, None])
    # From the first token to the last: one row up, two columns to the left, the table's first.
    assert bias()[0, 0, 5] == 0 and bias()[0, 5, 0] == 14
    assert (bias()[0].diagonal() == 7).all()


@torch.no_grad()
def test_merging_is_that_of_loops_and_without_its_norm_a_convolution():
    torch.manual_seed(0)
    layer = far_from_its_start(PatchMerging((2, 4), 5, 7))
    tokens = torch.randn(3, 8, 5)
    long = [
        torch.cat([tokens[:, 4 * y + 2 * c + x] for x in (0, 1) for y in (0, 1)], -1)
        for c in (0, 1)
    ]
    by_hand = torch.stack([layer.reduction(layer.norm(each)) for each in long], 1)
    assert torch.allclose(layer(tokens), by_hand, atol=1e-6)
    layer.norm = nn.Identity()
    kernel = layer.reduction.weight.view(7, 2, 2, 5).permute(0, 3, 2, 1)
    maps = tokens.mT.reshape(3, 5, 2, 4)
    assert torch.allclose(layer(tokens).mT.view(3, 7, 1, 2), F.conv2d(maps, kernel, stride=2))


@torch.no_grad()
def test_merged_windows_overlap_by_a_token():
    torch.manual_seed(0)
    layer = far_from_its_start(OverlappingMerging((2, 4), 5, 7))
    tokens, kernel = torch.randn(3, 8, 5), layer.convolution.layer
    normed, merged = layer.last(tokens), []
    for column in (0, 2):  # of the token in the middle of a window of 3 x 3
        spots = [(y, x) for y in (0, 1) for x in (column - 1, column, column + 1) if x >= 0]
        parts = [
            normed[:, 4 * y + x] @ kernel.weight[..., y + 1, x - column + 1].T for y, x in spots
        ]
        merged.append(sum(parts) + kernel.bias)
    assert torch.allclose(layer(tokens), layer.norm(torch.stack(merged, 1)), atol=1e-5)


@pytest.mark.parametrize("reduction", [1, 2])
@torch.no_grad()
def test_keys_come_from_a_smaller_map(reduction):
    torch.manual_seed(0)
    layer = far_from_its_start(
        SpatialReductionAttention(WIDTH, HEADS, grid_size=(2, 4), reduction=reduction)
    )
    tokens, few = torch.randn(2, 8, WIDTH), []
    if reduction == 1:
        few = list(tokens.unbind(1))
    else:
        kernel = layer.reduced.convolution.layer
        for c in (0, 2):
            spots = {(0, 0): c, (0, 1): c + 1, (1, 0): c + 4, (1, 1): c + 5}
            mixed = sum(tokens[:, n] @ kernel.weight[..., y, x].T for (y, x), n in spots.items())
            few.append(layer.reduced.norm(mixed + kernel.bias))
    q = layer.q(tokens)
    k, v = layer.kv(torch.stack(few, 1)).chunk(2, -1)
    heads = [
        (a @ b.mT / (WIDTH // HEADS) ** 0.5).softmax(-1) @ c
        for a, b, c in zip(*(x.chunk(HEADS, -1) for x in (q, k, v)), strict=True)
    ]
    assert torch.allclose(layer(tokens), layer.projection(torch.cat(heads, -1)), atol=1e-5)
    with capture_attention(layer) as maps:
        layer(tokens)
    assert next(iter(maps.values())).shape == (2, HEADS, 8, len(few))


@torch.no_grad()
def test_hidden_channels_look_at_their_neighbours():
    torch.manual_seed(0)
    mlp = far_from_its_start(ConvolutionalMLP(4, 6, grid_size=(2, 3)))
    tokens = torch.randn(2, 6, 4)
    hidden, kernel = mlp.expand(tokens), mlp.convolution.layer
    looked = torch.zeros_like(hidden)
    for y, x in [(y, x) for y in range(2) for x in range(3)]:
        for b, a in [(b, a) for b in range(2) for a in range(3)]:
            if abs(y - b) <= 1 and abs(x - a) <= 1:
                factor = kernel.weight[:, 0, b - y + 1, a - x + 1]
                looked[:, 3 * y + x] += factor * hidden[:, 3 * b + a]
    expected = mlp.contract(F.gelu(looked + kernel.bias))
    assert torch.allclose(mlp(tokens), expected, atol=1e-5)


@pytest.mark.parametrize(("patch", "lean"), [(4, 3), (4, 0), (2, 1)])
@torch.no_grad()
def test_windows_of_patches_lean_over(patch, lean):
    torch.manual_seed(0)
    layer = far_from_its_start(NormedPatches((8, 12), patch, 3, 5, lean=lean))
    images = torch.randn(2, 3, 8, 12)
    wide, side = F.pad(images, (lean, 0, lean, 0)), patch + lean
    tokens = []
    for top in range(0, 8, patch):
        for left in range(0, 12, patch):
            window = wide[:, :, top : top + side, left : left + side]
            tokens.append((window[:, None] * layer.projection.weight).sum((-3, -2, -1)))
    expected = layer.norm(torch.stack(tokens, 1) + layer.projection.bias)
    assert torch.allclose(layer(images), expected, atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_windows_of_any_shape(data):
    number = st.integers(1, 4)
    window = data.draw(number), data.draw(number)
    grid = tuple(side * data.draw(st.integers(1, 3)) for side in window)
    shift = tuple(data.draw(st.integers(0, side - 1)) for side in window)
    layer = WindowSelfAttention(4, 2, grid_size=grid, window_size=window, shift=shift)
    tokens = torch.randn(2, grid[0] * grid[1], 4)
    with capture_attention(layer) as maps, torch.no_grad():
        assert layer(tokens).shape == tokens.shape
    (found,) = maps.values()
    assert torch.allclose(found.sum(-1), torch.ones(()))
    assert len(found) * window[0] * window[1] == 2 * grid[0] * grid[1]


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 6), st.integers(1, 6))
def test_stages_of_any_shape(rows, columns, width, out_width):
    grid = 2 * rows, 2 * columns
    blocks = [EncoderBlock(nn.Identity(), nn.Identity(), w) for w in (width, out_width, out_width)]
    encoder = PyramidEncoder(
        [blocks[:1], blocks[1:]], [PatchMerging(grid, width, out_width)], out_width, halved(grid)
    )
    tokens = encoder(torch.randn(2, 4 * rows * columns, width))
    assert tokens.shape == (2, rows * columns, out_width)
    assert (encoder.depths, encoder.grid_size) == ((1, 2), (rows, columns))


WINDOWS_OF_3 = dict(grid_size=(4, 6), window_size=3)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: WindowSelfAttention(WIDTH, HEADS, **WINDOWS_OF_3),
            "a grid of 4x6 is not divisible into blocks of 3x3: use a block with 1 or 2 or 4 rows",
        ),
        (
            lambda: WindowSelfAttention(WIDTH, HEADS, grid_size=(4, 4), window_size=(2, 0)),
            r"window \(2, 0\): expected a positive whole number or a pair",
        ),
        (lambda: windows(shift=(2, 0)), r"of 2x3 shifted by \(2, 0\): expected less than a window"),
        (lambda: windows(shift=(1, 1))[0](torch.zeros(1, 25, WIDTH)), "25 tokens came, but a grid"),
        (lambda: PatchMerging((3, 4), 8, 16), "a grid of 3x4 tokens: expected even sides"),
        (
            lambda: PatchMerging((2, 4), 8, 16)(torch.zeros(1, 9, 8)),
            "9 tokens came for a grid of 2x4: expected 8, without prefix",
        ),
        (
            lambda: SpatialReductionAttention(WIDTH, HEADS, grid_size=(4, 6), reduction=0),
            "not divisible by reduction 0",
        ),
        (
            lambda: SpatialReductionAttention(WIDTH, HEADS, grid_size=(4, 6), reduction=4),
            "a grid of 4x6 tokens is not divisible by reduction 4: use a reduction that divides",
        ),
        (
            lambda: SpatialReductionAttention(WIDTH, 5, grid_size=(4, 6), reduction=2),
            "width 12 is not divisible by 5 heads: use a width that is a multiple of 5",
        ),
        (lambda: NormedPatches(8, 4, 3, 5, lean=4), "lean over by 4 pixels: expected 0 to 3, as"),
        (lambda: NormedPatches(9, 4, 3, 5), "image 9x9 is not divisible by patch 4: use 8 or 12"),
    ],
)
def test_what_cannot_be(make, words):
    with pytest.raises(ValueError, match=words):
        make()
