import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import pi

from vitbook.layers import RotatedPatches, ShiftedPatches

TOKENIZERS = {"shifted": ShiftedPatches, "rotated": RotatedPatches}


def naive_tokens(tokenizer, views):
    """Patch by patch: flatten, normalise, multiply."""
    (height, width), (rows, columns) = tokenizer.patch, tokenizer.grid_size
    tokens = []
    for i in range(rows):
        for j in range(columns):
            patch = views[..., i * height : (i + 1) * height, j * width : (j + 1) * width]
            flat = patch.flatten(1)
            variance = flat.var(1, correction=0, keepdim=True) + tokenizer.norm.eps
            flat = (flat - flat.mean(1, keepdim=True)) / variance.sqrt()
            flat = flat * tokenizer.norm.weight + tokenizer.norm.bias
            tokens.append(flat @ tokenizer.projection.weight.T + tokenizer.projection.bias)
    return torch.stack(tokens, dim=1)


@pytest.mark.parametrize("make", TOKENIZERS.values(), ids=TOKENIZERS)
@given(
    rows=st.integers(1, 3),
    columns=st.integers(1, 3),
    patch=st.tuples(st.integers(2, 5), st.integers(2, 5)),
    channels=st.integers(1, 3),
)
@settings(deadline=None, max_examples=15)
@torch.no_grad()
def test_tokens_are_patches_of_views(make, rows, columns, patch, channels):
    size = (rows * patch[0], columns * patch[1])
    tokenizer = make(size, patch, channels, width=6).eval()
    for parameter in tokenizer.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.3)
    images = torch.randn(2, channels, *size)
    tokens = tokenizer(images)
    assert tokens.shape == (2, rows * columns, 6) and tokenizer.grid_size == (rows, columns)
    assert torch.allclose(tokens, naive_tokens(tokenizer, tokenizer.views(images)), atol=1e-4)


def test_shifts_by_hand():
    image = torch.arange(1.0, 17).reshape(1, 1, 4, 4)
    views = ShiftedPatches(4, 2, 1, width=3).views(image)[0].int().tolist()
    assert views[0] == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16]]
    assert views[1] == [[0, 0, 0, 0], [0, 1, 2, 3], [0, 5, 6, 7], [0, 9, 10, 11]]
    assert views[2] == [[0, 0, 0, 0], [2, 3, 4, 0], [6, 7, 8, 0], [10, 11, 12, 0]]
    assert views[3] == [[0, 5, 6, 7], [0, 9, 10, 11], [0, 13, 14, 15], [0, 0, 0, 0]]
    assert views[4] == [[6, 7, 8, 0], [10, 11, 12, 0], [14, 15, 16, 0], [0, 0, 0, 0]]


def rotated(angles, size=(12, 18), **settings):
    return RotatedPatches(size, 3, 2, 4, angles=angles, **settings)


@pytest.mark.parametrize("axis", [-1, -2])
def test_one_way_is_the_mirror_of_the_other(axis):
    images, tokenizer = torch.randn(4, 2, 12, 18), rotated((0.1, 0.4))
    angles = torch.tensor([[0.1, -0.1], [0.2, 0.3], [0.4, -0.4], [0.0, 0.25]])
    straight = tokenizer.rotate(images, angles)
    mirrored = tokenizer.rotate(images.flip(axis), -angles).flip(axis)
    assert torch.allclose(straight, mirrored, atol=1e-5)


def test_a_positive_angle_turns_counter_clockwise():
    image = torch.zeros(1, 2, 9, 9)
    image[..., 4, 8] = 1  # the middle of the right edge
    turned = rotated((0.0, 0.1), size=9).rotate(image, torch.tensor([[pi / 2, -pi / 2]]))
    assert turned[0, 0, 0].argmax() == 4 and turned[0, 1, 0].argmax() == 8 * 9 + 4


def turned_pixel_by_pixel(image, angle):
    """What the image, turned counter-clockwise, shows at each pixel: bilinear, zero outside."""
    height, width = image.shape
    out = torch.zeros(height, width)
    for i in range(height):
        for j in range(width):
            x, y = j - (width - 1) / 2, (height - 1) / 2 - i  # to the right, and up
            from_x = math.cos(angle) * x + math.sin(angle) * y  # turned back
            from_y = math.cos(angle) * y - math.sin(angle) * x
            row, column = (height - 1) / 2 - from_y, (width - 1) / 2 + from_x
            for r in (math.floor(row), math.floor(row) + 1):
                for c in (math.floor(column), math.floor(column) + 1):
                    if 0 <= r < height and 0 <= c < width:
                        out[i, j] += image[r, c] * (1 - abs(row - r)) * (1 - abs(column - c))
    return out


@pytest.mark.parametrize("angle", [0.19, -0.19, 1.2])
def test_corners_are_exact(angle):
    image = torch.rand(12, 18)
    turned = rotated((0.1, 0.4)).rotate(image.expand(1, 2, -1, -1), torch.tensor([[angle]]))
    assert torch.allclose(turned[0, 0, 1], turned_pixel_by_pixel(image, angle), atol=1e-5)


def test_angles_in_training_and_in_evaluation():
    tokenizer, here = rotated((0.1, 0.5), num_rotations=4), torch.device("cpu")
    drawn = tokenizer.train().draw_angles(500, here)
    assert torch.equal(drawn[:, 1::2], -drawn[:, ::2])
    first, second = drawn[:, 0], drawn[:, 2]
    assert 0.1 <= first.min() < 0.11 and 0.29 < first.max() <= 0.3
    assert 0.3 <= second.min() < 0.31 and 0.49 < second.max() <= 0.5
    assert len(first.unique()) > 450
    fixed = tokenizer.eval().draw_angles(3, here)
    assert fixed.tolist() == [pytest.approx([0.2, -0.2, 0.4, -0.4])] * 3
    tokenizer.per_image, tokenizer.evaluation_angle = False, 0.0
    assert not tokenizer.draw_angles(2, here).any()
    assert len(tokenizer.train().draw_angles(8, here).unique(dim=0)) == 1


@pytest.mark.parametrize("fill", ["border", "reflection"])
def test_a_fill_from_the_image_turns_one_colour_into_itself(fill):
    plain = torch.full((1, 2, 12, 18), 0.7)
    turned = rotated((0.1, 0.4), fill=fill).rotate(plain, torch.tensor([[0.4]]))
    grey = rotated((0.1, 0.4)).rotate(plain, torch.tensor([[0.4]]))
    assert torch.allclose(turned[:, 0], plain) and grey.min() == 0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ShiftedPatches(8, 1, 3, 8), "patch size 1: expected at least 2, for SPT shifts"),
        (lambda: ShiftedPatches(30, 4, 3, 8), "image 30x30 is not divisible by patch 4: use 28"),
        (lambda: RotatedPatches(32, 4, 3, 8, num_rotations=3), "3 rotations: expected an even"),
        (lambda: rotated((0.3, 0.2)), "angles from 0.3 to 0.2: expected radians, the lower first"),
        (lambda: rotated((9.0, 12.9)), r"angles from 9 to 12.9: .* math.radians\(10\)"),
    ],
)
def test_settings_that_cannot_be(make, words):
    with pytest.raises(ValueError, match=words):
        make()
