import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vitbook.layers import OverlappingPatches, PatchEmbedding


@given(
    rows=st.integers(1, 4),
    columns=st.integers(1, 4),
    patch=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    channels=st.integers(1, 4),
)
@settings(deadline=None, max_examples=30)
def test_the_convolution_is_flatten_and_linear(rows, columns, patch, channels):
    size = (rows * patch[0], columns * patch[1])
    embed = PatchEmbedding(size, patch, channels, width=6)
    images = torch.randn(2, channels, *size)
    tokens = embed(images)
    assert tokens.shape == (2, rows * columns, 6)
    assert embed.grid_size == (rows, columns)
    assert torch.allclose(tokens, embed.flatten_and_project(images), atol=1e-5)


@given(
    rows=st.integers(1, 4),
    columns=st.integers(1, 4),
    patch=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    channels=st.integers(1, 3),
)
@settings(deadline=None, max_examples=30)
def test_overlapping_patches_are_windows_and_linear(rows, columns, patch, channels):
    size = (rows * patch[0], columns * patch[1])
    embed = OverlappingPatches(size, patch, channels, 6)
    torch.nn.init.normal_(embed.projection.bias)
    down, right = max(patch[0] // 2, 1), max(patch[1] // 2, 1)
    images = torch.randn(2, channels, *size)
    tokens = embed(images)
    assert embed.grid_size == (rows, columns) and embed.patch_size == patch[0]
    assert tokens.shape == (2, rows * columns, 6)
    assert torch.allclose(tokens, embed.flatten_and_project(images), atol=1e-5)
    padded = torch.nn.functional.pad(images, (right, right, down, down))
    for token in range(rows * columns):  # the patch, and so many pixels around it
        y, x = token // columns * patch[0], token % columns * patch[1]
        window = padded[:, :, y : y + patch[0] + 2 * down, x : x + patch[1] + 2 * right]
        by_hand = (window[:, None] * embed.projection.weight).sum((2, 3, 4))
        assert torch.allclose(tokens[:, token], by_hand + embed.projection.bias, atol=1e-5)


def test_a_wrapped_image_has_no_border():
    embed = OverlappingPatches((6, 8), 2, 3, 5, wrapped=True)
    images = torch.randn(2, 3, 6, 8)
    tokens = embed(images).unflatten(1, (3, 4))
    assert torch.allclose(embed(images), embed.flatten_and_project(images), atol=1e-5)
    moved = embed(images.roll((2, 4), (2, 3))).unflatten(1, (3, 4))
    assert torch.allclose(moved, tokens.roll((1, 2), (1, 2)), atol=1e-5)


def test_tokens_read_the_image_row_by_row():
    embed = PatchEmbedding((4, 6), 2, 1, width=1)
    torch.nn.init.constant_(embed.projection.weight, 0.25)
    image = torch.arange(6.0).reshape(2, 3).repeat_interleave(2, 0).repeat_interleave(2, 1)
    assert embed(image[None, None]).flatten().tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("size", "patch", "words"),
    [
        (30, 4, "image 30x30 is not divisible by patch 4: use 28 or 32, or pad"),
        ((32, 30), 4, "image 32x30 is not divisible by patch 4: use 32x28 or 32, or pad"),
        (3, 4, "image 3x3 is not divisible by patch 4: use 4, or pad"),
        (0, 4, "image size 0: expected a positive whole number or a pair of them"),
        ((8, 8, 8), 4, r"image size \(8, 8, 8\): expected"),
        (8, -2, "patch size -2: expected"),
    ],
)
def test_sizes_that_cannot_be(size, patch, words):
    with pytest.raises(ValueError, match=words):
        PatchEmbedding(size, patch, 3, 8)
