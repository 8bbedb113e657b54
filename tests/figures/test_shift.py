"""A moved camera: the page's numbers are those of torch's convolution."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from vitbook.figures import shift_meter


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


def put(page, shift=None, stride=None):
    if shift is not None:
        page.locator("[data-control=shift]").fill(str(shift))
    if stride is not None:
        page.get_by_role("radio", name=f"stride {stride}", exact=True).click()


def computed(page):
    return page.evaluate("document.querySelector('.vitbook-figure').fits")


@pytest.mark.parametrize("stride", [1, 2, 4])
def test_the_page_computes_the_convolution(show, shifts, photo, stride):
    page = show(shifts)
    put(page, stride=stride)
    expected = [left_over(photo, shift, stride) for shift in range(9)]
    assert computed(page) == pytest.approx(expected, abs=1e-6)
    exact = [shift for shift, rest in enumerate(computed(page)) if rest == 0]
    assert exact == list(range(0, 9, stride))  # the law


def test_the_task_is_reached_by_whole_strides_only(show, shifts):
    page = show(shifts)
    put(page, stride=4)
    reached = []
    for shift in range(9):
        put(page, shift=shift)
        if page.locator(".vitbook-figure").get_attribute("data-reached") == "true":
            reached.append(shift)
    assert reached == [4, 8]
    assert "it follows 4, 8 px" in page.locator(".vb-readout").inner_text()


def test_it_opens_on_a_map_that_follows(show, shifts):
    page = show(shifts)
    assert "It follows every move." in page.locator(".vb-readout").inner_text()
    assert "Left over: 0 %" in page.locator(".vb-live").inner_text()
    put(page, shift=1, stride=4)
    rest = computed(page)[1]
    assert f"Left over: {100 * rest:.0f} %" in page.locator(".vb-live").inner_text()


def test_the_finding_is_that_of_the_pixels(shifts, photo):
    worst = max(left_over(photo, shift, 4) for shift in range(9))
    assert f"up to {100 * worst:.0f} % of the map is new" in shifts.description
    one = shift_meter(photo, strides=(4,), shift=0, task="Look.")
    assert one.data["task"] == "Look." and "With a stride of 4" in one.description


def test_colours_are_averaged_and_a_flat_image_leaves_nothing(show):
    flat = torch.full((3, 24, 40), 90, dtype=torch.uint8)
    page = show(shift_meter(flat))
    put(page, stride=4)
    assert computed(page) == [0] * 9 and np.isfinite(shift_meter(flat).data["top"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (dict(window=3), "window 3 with strides .*expected an even window"),
        (dict(strides=(1, 8)), r"strides \[1, 8\], expected"),
        (dict(shift=9), "shift 9: expected 0 to 8 px"),
        (dict(window=16, strides=(16,)), "an image of 24x40 px, expected at least 32x96"),
    ],
)
def test_bad_input_gets_one_sentence(photo, arguments, words):
    with pytest.raises(ValueError, match=words):
        shift_meter(photo, **arguments)
