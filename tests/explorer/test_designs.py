"""What the page counts is what is counted on the real network."""

import re

import pytest
import torch

from vitbook.explorer import design_counter
from vitbook.explorer.designs import count
from vitbook.layers import SinusoidPosition
from vitbook.measure import count_macs, count_parameters
from vitbook.models.vit import vit

PRINTED = {"ViT-S/16": (8, 768, 48.6, 10.1), "ViT-SW": (4, 1024, 47.9, 9.9)}


def real(depth, width, ratio):
    """Parameters and multiply-adds of the network itself, on no memory."""
    with torch.device("meta"):
        network = vit(
            image_size=224, patch_size=16, width=width, depth=depth, num_heads=width // 64,
            mlp_width=int(ratio * width), num_classes=1000, qkv_bias=False,
            make_position=SinusoidPosition,
        ).eval()  # fmt: skip
        return count_parameters(network), count_macs(network, torch.zeros(1, 3, 224, 224))


def put(page, **sliders):
    for control, value in sliders.items():
        page.locator(f"[data-control={control}]").fill(str(value))


def computed(page, name):
    return page.evaluate(f"document.querySelector('.vitbook-figure').{name}")


def reached(page):
    return page.locator(".vitbook-figure").get_attribute("data-reached") == "true"


def words(page):
    return page.locator(".vb-readout").inner_text()


def test_the_page_counts_the_real_network(show, designs):
    page = show(designs)
    for depth, width, ratio in ((8, 768, 3), (16, 384, 3), (4, 1024, 3.5), (1, 128, 1.25)):
        put(page, depth=depth, width=width, ratio=ratio)
        parameters, macs = real(depth, width, ratio)
        assert (computed(page, "parameters"), computed(page, "macs")) == (parameters, macs)
        assert count(depth, width, int(ratio * width)) == (parameters, macs)
        assert f"{parameters / 1e6:.2f} M parameters, {macs / 1e9:.2f} G" in words(page)


def test_the_task_is_reached_by_one_ratio_and_the_multiply_adds_are_not_met(show, designs):
    page, found = show(designs), []
    assert not reached(page)
    put(page, depth=4, width=1024)
    for quarter in range(4, 25):
        put(page, ratio=quarter / 4)
        if reached(page):
            found.append(quarter / 4)
    assert found == [3.5]
    put(page, ratio=3.5)
    assert "3.4 % under the printed 9.9 G" in words(page)


def test_other_layers_meet_both_figures_by_chance(show, designs):
    """Twelve layers of width 640: 47.90 M and 9.89 G, and no ViT-SW."""
    page = show(designs)
    put(page, depth=12, width=640, ratio=2.75)
    assert [
        round(each / unit, 1) for each, unit in zip(real(12, 640, 2.75), (1e6, 1e9), strict=True)
    ] == [
        47.9,
        9.9,
    ]
    assert "By chance 47.9 M, rounded or cut, from other layers than ViT-SW's" in words(page)
    assert "those printed too: 9.9 G" in words(page) and not reached(page)


def test_a_network_beyond_the_planes_says_so_and_reset_brings_it_back(show, designs):
    page = show(designs)
    put(page, depth=24, width=1280, ratio=6)
    dots = page.locator(".vb-live svg svg circle")
    assert "Beyond both planes" in words(page)
    assert [dot.get_attribute("visibility") for dot in dots.all()] == ["hidden"] * 2
    page.locator("[data-control=reset]").click()
    assert "48.60 M parameters, 9.89 G" in words(page)
    assert [dot.get_attribute("visibility") for dot in dots.all()] == ["visible"] * 2


def test_the_still_and_the_page_draw_the_circle_at_one_place(show, designs):
    page = show(designs)
    circle = re.compile(r'<circle cx="([\d.]+)" cy="([\d.]+)"')
    still = [tuple(map(float, each)) for each in circle.findall(designs.still)]
    live = [
        (float(dot.get_attribute("cx")), float(dot.get_attribute("cy")))
        for dot in page.locator(".vb-live svg svg circle").all()
    ]
    assert len(still) == len(live) == 2
    for one, other in zip(still, live, strict=True):
        assert one == pytest.approx(other, abs=0.01)


def test_the_printed_boxes_are_as_large_as_their_rounding(show, designs):
    """0.1 M across and 0.1 G down, in the plane that magnifies 6 M and 1.2 G."""
    page = show(designs)
    plane = page.locator(".vb-live .vb-pair > div").nth(1)
    field = plane.locator("svg svg")
    wide, tall = (float(field.get_attribute(name)) for name in ("width", "height"))
    box = plane.locator("svg svg rect").last
    assert float(box.get_attribute("height")) == pytest.approx(tall * 0.1 / 1.2)
    assert float(box.get_attribute("width")) == pytest.approx(max(wide * 0.1 / 6, 6))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (dict(goal="ViT-B"), "goal came as 'ViT-B', expected one of ViT-S/16, ViT-SW"),
        (dict(start=(8, 700, 3)), "width came as 700, expected 128 to 1280 in steps of 64"),
        (dict(start=(0, 768, 3)), "depth came as 0, expected 1 to 24 in steps of 1"),
    ],
)
def test_what_it_cannot_draw(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        design_counter(PRINTED, **{"goal": "ViT-SW"} | change)
