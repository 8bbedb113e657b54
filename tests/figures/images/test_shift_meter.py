"""A moved camera: the page's numbers are those of torch's convolution."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from reading import computed, put, reached, said
from small_inputs import photo

from vitbook.figures import shift_meter


def sample():
    return shift_meter(photo(24, 40))


def left_over(image, shift, stride, window=4):
    """By torch, on floats: the better of the two whole numbers of cells."""
    grey = image.float().mean(0).round()[None, None]
    view = grey.shape[-1] - 8
    kernel = torch.ones(1, 1, window, window)
    kernel[..., : window // 2] = -1
    old, new = (F.conv2d(grey[..., s : s + view], kernel, stride=stride)[0, 0] for s in (0, shift))
    rests = []
    for cells in (shift // stride, -(-shift // stride)):
        a, b = new[:, : new.shape[1] - cells], old[:, cells:]
        rests.append(((a - b).abs().sum() / (a.abs() + b.abs()).sum()).item())
    return min(rests)


def choose(page, stride):
    page.get_by_role("radio", name=f"stride {stride}", exact=True).click()


@pytest.mark.parametrize("stride", [1, 2, 4])
def test_the_page_computes_the_convolution(page, stride):
    choose(page, stride)
    fits = computed(page, "fits")
    expected = [left_over(photo(24, 40), shift, stride) for shift in range(9)]
    assert fits == pytest.approx(expected, abs=1e-6)
    assert [shift for shift, rest in enumerate(fits) if rest == 0] == list(range(0, 9, stride))


def test_the_task_is_reached_by_whole_strides_only(page):
    choose(page, 4)
    found = []
    for shift in range(9):
        put(page, shift=shift)
        if reached(page):
            found.append(shift)
    assert found == [4, 8] and "it follows 4, 8 px" in said(page)


def test_it_opens_on_a_map_that_follows_as_its_caption_says(page):
    assert "It follows every move." in said(page)
    assert "Left over: 0 %" in page.locator(".vb-live").inner_text()
    choose(page, 4)
    put(page, shift=1)
    rests = computed(page, "fits")
    assert f"Left over: {100 * rests[1]:.0f} %" in page.locator(".vb-live").inner_text()
    assert f"up to {100 * max(rests):.0f} % of the map is new" in sample().description


def test_a_flat_image_leaves_nothing(show):
    flat = shift_meter(torch.full((3, 24, 40), 90, dtype=torch.uint8))
    page = show(flat)
    choose(page, 4)
    assert computed(page, "fits") == [0] * 9 and np.isfinite(flat.data["top"])
