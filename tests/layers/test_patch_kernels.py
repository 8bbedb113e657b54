"""The kernel of other patches: timm's numbers, and the law that it is made for."""

import pytest
import timm
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from vitbook.errors import UnknownNameError
from vitbook.layers import PatchEmbedding, resize_matrix, resize_patch_kernel

WAYS = ("bicubic", "bilinear")


def seeded(seed):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("images", WAYS)
@pytest.mark.parametrize("new", [(4, 4), (8, 8), (21, 21), (9, 20)])
def test_it_is_timms(new, images):
    kernel = torch.randn(5, 3, 14, 14, generator=seeded(0))
    theirs = timm.layers.patch_embed.resample_patch_embed(kernel, list(new), images)
    assert torch.allclose(resize_patch_kernel(kernel, new, images), theirs, atol=1e-4)


@settings(deadline=None, max_examples=40)
@given(
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.tuples(st.integers(0, 9), st.integers(0, 9)),
    st.sampled_from(WAYS),
)
def test_tokens_of_enlarged_patches_are_the_old_ones(old, more, images):
    new = tuple(side + extra for side, extra in zip(old, more, strict=True))
    patches = torch.randn(6, 3, *old, generator=seeded(1), dtype=torch.float64)
    kernel = torch.randn(4, 3, *old, generator=seeded(2), dtype=torch.float64)
    down, across = (resize_matrix(a, b, images) for a, b in zip(old, new, strict=True))
    large = down @ patches @ across.T
    tokens = torch.einsum("ncpq,dcpq->nd", large, resize_patch_kernel(kernel, new, images))
    assert torch.allclose(tokens, torch.einsum("ncpq,dcpq->nd", patches, kernel), atol=1e-7)


@pytest.mark.parametrize("images", WAYS)
@pytest.mark.parametrize("size", [(9, 5), (2, 8), (6, 12)])
def test_the_matrix_is_what_torch_does_to_a_picture(size, images):
    picture = torch.randn(1, 1, 6, 8, generator=seeded(3), dtype=torch.float64)
    down, across = resize_matrix(6, size[0], images), resize_matrix(8, size[1], images)
    theirs = F.interpolate(picture, size, mode=images, antialias=True)
    assert torch.allclose(down @ picture @ across.T, theirs, atol=1e-9)


def test_by_hand_a_line_of_two_pixels_becomes_four():
    # Bilinear: a, (3a + b) / 4, (a + 3b) / 4, b; of these, 1 a + 3 b again.
    assert torch.allclose(
        resize_matrix(2, 4, "bilinear"),
        torch.tensor([[1, 0], [0.75, 0.25], [0.25, 0.75], [0, 1]], dtype=torch.float64),
    )
    kernel = torch.tensor([1.0, 3.0]).view(1, 1, 1, 2)
    found = resize_patch_kernel(kernel, (1, 4), "bilinear").flatten()
    assert torch.allclose(found, torch.tensor([0.2, 0.6, 1.4, 1.8]), atol=1e-6)


def test_where_patches_shrink_it_is_the_best_kernel_for_independent_pixels():
    kernel = torch.randn(1, 1, 1, 6, generator=seeded(4), dtype=torch.float64)
    shrink = resize_matrix(6, 3)
    found = resize_patch_kernel(kernel, (1, 3)).flatten()

    def missed(w):  # of patches with mean 0 and variance 1, pixel by pixel
        return (shrink.T @ w - kernel.flatten()).square().sum()

    for way in torch.randn(20, 3, generator=seeded(5), dtype=torch.float64):
        assert missed(found + 0.01 * way) > missed(found) > 0


def test_the_same_size_and_the_dtype_stay():
    layer = PatchEmbedding(8, 4, 3, 16)
    assert resize_patch_kernel(layer.projection.weight, 4) is layer.projection.weight
    assert resize_patch_kernel(layer.projection.weight.bfloat16(), 8).dtype is torch.bfloat16


def test_what_is_no_patch_and_no_way_is_refused():
    kernel = torch.zeros(1, 3, 4, 4)
    for wrong in (0, -2, (4, 0), (1, 2, 3)):
        with pytest.raises(ValueError, match="expected a positive whole number or a pair"):
            resize_patch_kernel(kernel, wrong)
    with pytest.raises(UnknownNameError, match="way to resize"):
        resize_patch_kernel(kernel, 8, "bicubicc")
