import pytest
import torch

from vitbook.analysis import overlay, soft_masks


def test_a_peak_is_brightest_at_its_patch_and_falls_with_distance():
    maps = torch.zeros(1, 7, 5)
    maps[0, 3, 2] = 0.2
    (mask,) = soft_masks(maps, 56, 40)
    assert mask.shape == (56, 40) and mask.min() == 0 and mask.max() == 1
    row, column = divmod(int(mask.argmax()), 40)
    assert 24 <= row < 32 and 16 <= column < 24
    from_the_centre = mask[28::4, 20]  # down a column, three patches and a half
    assert (from_the_centre.diff() <= 1e-6).all() and from_the_centre[-1] < 0.05


def test_only_the_shape_of_a_map_counts():
    maps = torch.rand(2, 4, 6, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(soft_masks(maps, 32, 48), soft_masks(7 * maps, 32, 48))
    both = soft_masks(maps, 32, 48)
    torch.testing.assert_close(both[1:], soft_masks(maps[1:], 32, 48))


def test_stretching_makes_a_nearly_even_map_look_like_a_sharp_one():
    peak = torch.zeros(1, 4, 4)
    peak[0, 1, 1] = 1
    even = 1 + 0.01 * peak
    stretched = soft_masks(torch.cat([peak, even]), 32, 32)
    # Not alike to the digit: what Lanczos throws above 1 or below 0 is cut from one, not the other.
    torch.testing.assert_close(stretched[0], stretched[1], atol=0.1, rtol=0)
    honest = soft_masks(even, 32, 32, stretch=False)
    assert honest.min() > 0.98


def test_an_even_map_leaves_the_image_as_it_is():
    images = torch.randint(0, 256, (2, 3, 16, 16), dtype=torch.uint8)
    assert (overlay(images, torch.full((2, 4, 4), 0.25)).int() - images.int()).abs().max() <= 1


def test_it_lights_what_the_map_names():
    images = torch.full((1, 1, 32, 32), 200, dtype=torch.uint8)
    maps = torch.zeros(1, 4, 4)
    maps[0, 0, 0] = 1
    lit = overlay(images, maps)
    assert lit.dtype == torch.uint8 and lit[0, 0, 0, 0] > 190 and lit[0, 0, -1, -1] < 10


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_precisions(dtype):
    maps = torch.rand(1, 4, 4).to(dtype)
    torch.testing.assert_close(
        soft_masks(maps, 32, 32), soft_masks(maps.float(), 32, 32), atol=0.01, rtol=0
    )


@pytest.mark.parametrize(
    ("maps", "sentence"),
    [
        (torch.tensor([[[1.0, float("nan")]]]), "NaN, infinity or numbers below 0"),
        (torch.tensor([[[1.0, -1.0]]]), "numbers below 0"),
        (torch.zeros(1, 2, 2), "0 everywhere"),
        (torch.ones(1, 3, 3), "3x3"),
        (torch.ones(2, 2, 2), "2 maps for 1 images"),
    ],
)
def test_bad_input(maps, sentence):
    with pytest.raises(ValueError, match=sentence):
        overlay(torch.zeros(1, 3, 8, 8, dtype=torch.uint8), maps)
