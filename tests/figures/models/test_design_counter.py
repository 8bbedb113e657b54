"""What the page counts is what is counted on the real network."""

from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import computed, put, reached, said

from vitbook.figures import design_counter
from vitbook.figures.design_counter import NETWORK, count
from vitbook.layers import SinusoidPosition
from vitbook.measure import count_macs, count_parameters
from vitbook.models.papers.vit import Body, vit


@cache
def sample():
    return design_counter({"ViT-S/16": (48.6, 10.1), "ViT-SW": (47.9, 9.9)})


@cache
def with_patches():
    return design_counter({}, start=(12, 384, 4), patches=(32, 16, 14, 8))


def real(depth, width, ratio, patch=16):
    """Parameters and multiply-adds of the network itself, on no memory."""
    with torch.device("meta"):
        network = vit(
            image_size=224, patch_size=patch, num_classes=1000, make_position=SinusoidPosition,
            body=Body(width, depth, width // 64, int(ratio * width), qkv_bias=False),
        ).eval()  # fmt: skip
        return count_parameters(network), count_macs(network, torch.zeros(1, 3, 224, 224))


def test_the_page_counts_the_real_network(page):
    for depth, width, ratio in ((8, 768, 3), (4, 1024, 3.5), (1, 128, 1.25)):
        put(page, depth=depth, width=width, ratio=ratio)
        parameters, macs = real(depth, width, ratio)
        assert (computed(page, "parameters"), computed(page, "macs")) == (parameters, macs)
        assert count(depth, width, int(ratio * width)) == (parameters, macs)
        assert f"{parameters / 1e6:.2f} M parameters, {macs / 1e9:.2f} G" in said(page)


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 24), st.integers(1, 32), st.integers(1, 4), st.sampled_from([32, 16, 8]))
def test_node_counts_as_the_chapter(js, depth, width, ratio, patch):
    width *= 32
    found = js("design_counter", "count(depth, width, hidden, patch, network)", depth=depth,
               width=width, hidden=ratio * width, patch=patch, network=NETWORK)  # fmt: skip
    assert (found["parameters"], found["macs"]) == count(depth, width, ratio * width, patch)


def test_the_task_is_reached_by_the_depths_of_equal_cost(page):
    cost, found = real(8, 768, 3)[1], []
    put(page, width=512)
    for depth in range(1, 25):
        put(page, depth=depth)
        if reached(page):
            found.append(depth)
    assert found == [d for d in range(1, 25) if abs(real(d, 512, 3)[1] / cost - 1) < 0.03] != []
    put(page, depth=8, width=768)
    assert "100 % of those at the start" in said(page) and not reached(page)


def test_a_network_beyond_the_planes_says_so_and_reset_brings_it_back(page):
    put(page, depth=24, width=1280, ratio=4)
    dots = page.locator(".vb-live svg svg .vb-handle")
    assert "Beyond the plane" in said(page)
    assert [dot.get_attribute("visibility") for dot in dots.all()] == ["hidden"]
    page.click("[data-control=reset]")
    assert "48.60 M parameters, 9.89 G" in said(page)
    assert [dot.get_attribute("visibility") for dot in dots.all()] == ["visible"]


def test_smaller_patches_are_paid_for_with_width(show):
    page = show(with_patches())
    put(page, patch=3)
    assert (computed(page, "parameters"), computed(page, "macs")) == real(12, 384, 4, 8)
    assert "784 patches" in page.locator(".vb-shape").inner_text() and not reached(page)
    put(page, depth=8, width=192)
    assert reached(page) and "8 layers of width 192 cost as much as 12 layers" in said(page)
    put(page, patch=1)
    assert not reached(page), "the same network, with fewer tokens"
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("patches", [(15, 16), (8, 32), (16, 0)])
def test_patches_that_do_not_tile_or_lack_the_start_are_refused(patches):
    with pytest.raises(ValueError, match="expected divisors of 224, 16 among them"):
        design_counter({}, patches=patches)
