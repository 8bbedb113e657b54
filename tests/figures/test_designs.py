"""What the page counts is what is counted on the real network."""

import numpy as np
import pytest
import torch

from vitbook.figures import design_counter
from vitbook.figures.design_counter import count
from vitbook.layers import SinusoidPosition
from vitbook.measure import count_macs, count_parameters
from vitbook.models.papers.vit import vit

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
    dots = page.locator(".vb-live svg svg .vb-handle")
    assert "Beyond both planes" in words(page)
    assert [dot.get_attribute("visibility") for dot in dots.all()] == ["hidden"] * 2
    page.locator("[data-control=reset]").click()
    assert "48.60 M parameters, 9.89 G" in words(page)
    assert [dot.get_attribute("visibility") for dot in dots.all()] == ["visible"] * 2


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


def settings(page):
    pairs = (pair.split("=") for pair in computed(page, "dataset.state").split())
    return {name: float(value) for name, value in pairs}


def spot(page, plane, millions, billions):
    """Where a network of so many parameters and multiply-adds lies in a plane, on the screen."""
    box = page.locator(".vb-counted").nth(plane).bounding_box()
    (x0, x1), (y0, y1) = [((0, 80), (0, 16)), ((44.9, 50.9), (9.3, 10.5))][plane]
    unit = box["width"] / 320
    across = 36 + (millions - x0) / (x1 - x0) * (320 - 36 - 8)
    down = 22 + (y1 - billions) / (y1 - y0) * (274 - 22 - 32)
    return box["x"] + across * unit, box["y"] + down * unit


def test_the_circle_is_dragged_and_a_network_of_those_counts_follows(show, designs):
    page = show(designs)
    for plane, start, ends in ((0, (48.6, 9.89), ((20, 4), (60, 12))), (1, (60, 12), ())):
        page.mouse.move(*spot(page, plane, *start))
        page.mouse.down()
        for end in ends:
            page.mouse.move(*spot(page, plane, *end), steps=3)
            parameters, macs = computed(page, "parameters") / 1e6, computed(page, "macs") / 1e9
            assert parameters == pytest.approx(end[0], abs=1.5)
            assert macs == pytest.approx(end[1], abs=0.3)
            now = settings(page)
            counted = count(int(now["depth"]), int(now["width"]), int(now["ratio"] * now["width"]))
            assert counted == (computed(page, "parameters"), computed(page, "macs"))
        page.mouse.up()
        assert ends or settings(page) == now, "a press where no circle is, and none moves"


def test_other_layers_are_found_by_dragging_to_the_box(show, designs):
    page = show(designs)
    page.mouse.move(*spot(page, 1, 48.6, 9.89))
    page.mouse.down()
    page.mouse.move(*spot(page, 1, 47.9, 9.9), steps=4)
    page.mouse.up()
    assert computed(page, "parameters") / 1e6 == pytest.approx(47.9, abs=0.1)
    assert computed(page, "macs") / 1e9 == pytest.approx(9.9, abs=0.05)
    assert not reached(page)


def test_the_arrow_keys_walk_a_layer_and_a_width(show, designs):
    page = show(designs)
    page.locator("[data-control=near]").focus()
    page.keyboard.press("ArrowDown")  # seven layers lie outside that plane
    assert settings(page) == {"depth": 7, "width": 768, "ratio": 3}
    assert page.evaluate("document.activeElement.dataset.control") == "network"
    page.keyboard.press("ArrowRight")
    assert settings(page)["width"] == 832
    assert page.locator("[data-control=network]").get_attribute("aria-valuetext") == (
        "7 layers of width 832"
    )
    for _ in range(30):
        page.keyboard.press("ArrowUp")
    assert computed(page, "parameters") < 80e6, "the keys keep the circle in sight"


def test_the_network_is_drawn_layer_by_layer(show, designs):
    page = show(designs)
    put(page, depth=5, width=512, ratio=4)
    assert page.locator(".vb-attends").count() == page.locator(".vb-mixes").count() == 5
    name = page.locator(".vb-network").get_attribute("aria-label")
    assert name == "The network: 5 layers of width 512, MLP of 2,048"
    tall = page.locator(".vb-mixes").first.bounding_box()["height"]
    low = page.locator(".vb-attends").first.bounding_box()["height"]
    assert tall / low == pytest.approx(4, rel=0.1)


def test_the_network_under_a_pointer_is_the_nearest_or_the_one_most_like_the_last(js, designs):
    data = designs.data
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
