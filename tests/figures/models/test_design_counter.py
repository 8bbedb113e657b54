"""What the page counts is what is counted on the real network."""

from functools import cache

import numpy as np
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
    printed = {"ViT-S/16": (8, 768, 48.6, 10.1), "ViT-SW": (4, 1024, 47.9, 9.9)}
    return design_counter(printed, "ViT-SW")


def real(depth, width, ratio):
    """Parameters and multiply-adds of the network itself, on no memory."""
    with torch.device("meta"):
        network = vit(
            image_size=224, patch_size=16, num_classes=1000, make_position=SinusoidPosition,
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
@given(st.integers(1, 24), st.integers(1, 32), st.integers(1, 4))
def test_node_counts_as_the_chapter(js, depth, width, ratio):
    width *= 32
    found = js("design_counter", "count(depth, width, hidden, network)", depth=depth, width=width,
               hidden=ratio * width, network=NETWORK)  # fmt: skip
    assert (found["parameters"], found["macs"]) == count(depth, width, ratio * width)


def test_the_task_is_reached_by_one_ratio_and_the_multiply_adds_are_not_met(page):
    found = []
    put(page, depth=4, width=1024)
    for quarter in range(4, 25):
        put(page, ratio=quarter / 4)
        if reached(page):
            found.append(quarter / 4)
    assert found == [3.5]
    put(page, ratio=3.5)
    assert "3.4 % under the printed 9.9 G" in said(page)


def test_other_layers_meet_both_figures_by_chance(page):
    """Twelve layers of width 640: 47.90 M and 9.89 G, and no ViT-SW."""
    put(page, depth=12, width=640, ratio=2.75)
    parameters, macs = real(12, 640, 2.75)
    assert (round(parameters / 1e6, 1), round(macs / 1e9, 1)) == (47.9, 9.9)
    assert "By chance 47.9 M, rounded or cut, from other layers than ViT-SW's" in said(page)
    assert "those printed too: 9.9 G" in said(page) and not reached(page)


def test_a_network_beyond_the_planes_says_so_and_reset_brings_it_back(page):
    put(page, depth=24, width=1280, ratio=6)
    dots = page.locator(".vb-live svg svg .vb-handle")
    assert "Beyond both planes" in said(page)
    assert [dot.get_attribute("visibility") for dot in dots.all()] == ["hidden"] * 2
    page.click("[data-control=reset]")
    assert "48.60 M parameters, 9.89 G" in said(page)
    assert [dot.get_attribute("visibility") for dot in dots.all()] == ["visible"] * 2


def test_the_printed_boxes_are_as_large_as_their_rounding(page):
    """0.1 M across and 0.1 G down, in the plane that magnifies 6 M and 1.2 G."""
    field = page.locator(".vb-live .vb-pair > div").nth(1).locator("svg svg")
    wide, tall = (float(field.get_attribute(name)) for name in ("width", "height"))
    box = field.locator("rect").last
    assert float(box.get_attribute("height")) == pytest.approx(tall * 0.1 / 1.2)
    assert float(box.get_attribute("width")) == pytest.approx(max(wide * 0.1 / 6, 6))


def test_the_network_is_drawn_layer_by_layer(page):
    put(page, depth=5, width=512, ratio=4)
    assert page.locator(".vb-attends").count() == page.locator(".vb-mixes").count() == 5
    name = page.locator(".vb-network").get_attribute("aria-label")
    assert name == "The network: 5 layers of width 512, MLP of 2,048"
    tall = page.locator(".vb-mixes").first.bounding_box()["height"]
    low = page.locator(".vb-attends").first.bounding_box()["height"]
    assert tall / low == pytest.approx(4, rel=0.1)


def test_the_network_under_a_pointer_is_the_nearest_or_the_one_most_like_the_last(js):
    data = sample().data
    call = """(() => {
      const all = allNetworks(limits, network), far = ({ millions, billions }) =>
        Math.hypot(millions - at[0], 10 * (billions - at[1]));
      return [all.length, under(all, far, last, limits, near)];
    })()"""
    given = dict(limits=data["limits"], network=data["network"], at=[47.9, 9.9],
                 last={"depth": 8, "width": 768, "ratio": 3})  # fmt: skip
    length, nearest = js("design_counter", call, near=0, **given)
    assert length == 24 * 19 * 21
    away = {}
    for depth in range(1, 25):
        for width in range(128, 1281, 64):
            for quarter in range(4, 25):
                m, g = count(depth, width, quarter * width // 4)
                key = depth, width, quarter / 4
                away[key] = np.hypot(m / 1e6 - 47.9, 10 * (g / 1e9 - 9.9))
    assert tuple(nearest[k] for k in ("depth", "width", "ratio")) == min(away, key=away.get)
    _, like = js("design_counter", call, near=2, **given)
    within = [key for key, value in away.items() if value <= 2]
    change = {(d, w, r): ((d - 8) / 23) ** 2 + ((w - 768) / 1152) ** 2 + ((r - 3) / 5) ** 2
              for d, w, r in within}  # fmt: skip
    assert tuple(like[k] for k in ("depth", "width", "ratio")) == min(change, key=change.get)
