"""Channels on a grid: the page and the library round alike."""

import re
from functools import cache
from importlib import import_module

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import computed, pick, reached, said, state
from reading import put as slide
from small_inputs import seeded

from vitbook.figures import rounding_grid
from vitbook.layers import quantize

percent = import_module("vitbook.figures.rounding_grid").percent
# Channels are rows of float32 in Node, as in the page.
FLOATS = "channels.map((values) => Float32Array.from(values))"
# 60 tokens of six channels, of which the third is far louder than the rest.
LOUD = torch.tensor([0.3, 2.2, 30, 1.4, 0.6, 1]) * torch.randn(60, 6, generator=seeded(3))


@cache
def sample():
    return rounding_grid(LOUD, names=["a", "b", "very <loud>", "d", "e", "f"], bits=6, goal=8)


def library(values, bits, each, percent=100):
    """Codes used and errors in percent, loudest channel first, by `vitbook.layers.quantize`."""
    values = values[:, values.abs().amax(0).argsort(descending=True, stable=True)].clone()
    values[:, 0] *= percent / 100
    codes, step = found = quantize(values, bits, dim=0 if each else None)
    used = [len(column.unique()) for column in codes.T]
    change = (found.values.double() - values.double()).square().mean(0)
    errors = 100 * (change / values.double().square().mean(0)).sqrt()
    return codes, step, used, errors.nan_to_num().tolist()


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("bits", [2, 5, 8])
def test_node_rounds_as_the_library(js, bits, each):
    codes, step, used, errors = library(LOUD, bits, each, percent=45)
    order = LOUD.abs().amax(0).argsort(descending=True, stable=True)
    live = js("rounding_grid", f"roundChannels(scaled({FLOATS}, 45), bits, each)",
              channels=LOUD.T[order], bits=bits, each=each)  # fmt: skip
    assert [row["codes"] for row in live] == codes.T.tolist()
    assert [row["step"] for row in live] == step.expand(1, 6)[0].tolist()
    assert [row["used"] for row in live] == used
    assert [row["error"] for row in live] == pytest.approx(errors, rel=1e-6)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3), min_size=1,
                max_size=8), st.integers(2, 8), st.booleans())  # fmt: skip
def test_any_values_are_rounded_as_in_the_library(js, values, bits, each):
    codes = quantize(torch.tensor(values), bits, dim=0 if each else None).codes
    live = js("rounding_grid", f"roundChannels({FLOATS}, bits, each).map((row) => row.codes)",
              channels=np.array(values, np.float32).T, bits=bits, each=each)  # fmt: skip
    assert np.array_equal(live, codes.T)


def test_halves_go_to_the_even_number(js):
    halves = np.arange(-4.5, 5).tolist()
    assert js("rounding_grid", "numbers.map(nearest)", numbers=halves) == np.rint(halves).tolist()


def test_a_median_is_torchs(js):
    for numbers in ([3, 1, 2, 9], [5, 1, 4], [2]):
        expected = torch.tensor(numbers).median().item()
        assert js("rounding_grid", "median(numbers)", numbers=numbers) == expected


def test_a_strip_by_hand(js):
    """Three values on a line from -4 to 4 and 8 pixels; the codes of 2 bits are at -3, 0 and 3."""
    found = {"values": [-3, 0.5, 0.6], "codes": [-1, 0, 0], "step": 3}
    strips = [js("rounding_grid", "strip(found, 2, 4, 8, r)", found=found, r=r) for r in (1, 2)]
    far, near = (np.reshape(strip, (2, 8)) for strip in strips)
    assert far.tolist() == [[0, 3, 0, 0, 4, 0, 0, 1], [0, 6, 0, 0, 6, 0, 0, 1]]
    assert near.tolist() == [[0, 3, 2, 2, 4, 2, 2, 2], [0, 6, 6, 2, 6, 6, 2, 2]]


def test_the_number_of_the_axis_is_round_and_inside(js):
    for reach in (0.013, 0.7, 1, 6.3, 22, 1e4):
        tick = js("rounding_grid", "tick(reach)", reach=reach)
        assert 0.3 * reach < tick <= 0.8 * reach and f"{tick:.0e}"[0] in "125"


def put(page, bits=None, each=None, scale=None):
    if bits is not None:
        slide(page, bits=bits)
    if each is not None:
        pick(page, "each", each)
    if scale is not None:
        link = page.locator(".vb-link").get_attribute("href")
        page.evaluate("(to) => (location.hash = to)", re.sub(r"scale=\d+", f"scale={scale}", link))
        page.wait_for_selector(f".vitbook-figure[data-state$='scale={scale}']")


@pytest.mark.parametrize("each", [0, 1])
def test_the_page_shows_the_librarys_numbers(page, each):
    for bits, scale in ((2, 100), (6, 10), (8, 300)):
        put(page, bits, each, scale)
        _, _, used, errors = library(LOUD, bits, bool(each), scale)
        assert computed(page, "used") == used
        assert computed(page, "errors") == pytest.approx(errors, rel=1e-6)
        shown = page.locator(".vb-channel > :nth-child(n + 3)").all_inner_texts()[2:]
        told = [text for pair in zip(used, map(percent, errors), strict=True)
                for text in map(str, pair)]  # fmt: skip
        assert shown == told
        middle = f"uses {sorted(used)[2]} of {2**bits - 1} codes, error "
        assert middle + percent(sorted(errors)[2]) in said(page)
        assert reached(page) == (bits == 6 and not each and sorted(used)[2] >= 8)


def test_it_starts_as_its_caption_says(page):
    assert state(page) == "bits=6 each=0 scale=100" and not reached(page)
    names = page.locator(".vb-channel > b").all_inner_texts()
    assert names == ["very <loud>", "b", "d", "f", "e", "a"]
    used, own = (sorted(library(LOUD, 6, each)[2])[2] for each in (False, True))
    assert f"very <loud>: the median channel uses {used} codes, with an" in sample().description
    assert f"With a step for each channel it uses {own}, with an error of" in sample().description


def test_the_task_is_reached_by_scaling_down_and_by_nothing_else(page):
    assert "how far very <loud> must be scaled down" in page.locator(".vb-task").inner_text()
    put(page, bits=8)
    assert sorted(computed(page, "used"))[2] >= 8 and not reached(page), "more bits are no way"
    put(page, bits=6, each=1)
    assert sorted(computed(page, "used"))[2] >= 8 and not reached(page), "nor are more steps"
    put(page, each=0)
    found = []
    page.locator(".vb-knob").focus()
    for _ in range(18):
        page.keyboard.press("ArrowLeft")
        assert reached(page) == (sorted(computed(page, "used"))[2] >= 8)
        found.append(reached(page))
    assert found[0] is False and found[-1] is True
    assert "✓ Reached: with very <loud> at 0.10 × the median channel uses" in said(page)


def test_it_says_which_channel_sets_the_step(show):
    values = LOUD.clone()
    values[:, 1] *= 3
    page = show(rounding_grid(values))
    for scale, most in ((10, 1), (100, 2)):
        put(page, scale=scale)
        assert f"The step comes from channel {most}." in said(page)
    put(page, each=1)
    assert "The step comes from" not in said(page)


def test_a_silent_channel_has_no_error(show):
    values = LOUD.clone()
    values[:, 3] = 0
    figure = rounding_grid(values, bits=4)
    page = show(figure)
    assert figure.data["names"][-1] == "channel 3" and figure.data["task"] == ""
    for each in (0, 1):
        put(page, each=each)
        assert (computed(page, "used")[-1], computed(page, "errors")[-1]) == (1, 0)


@pytest.mark.parametrize("factor", [1e-38, 1e36])
def test_any_magnitude_has_a_number_line(show, factor):
    values = LOUD.double() * factor
    page = show(rounding_grid(values))
    used = [len(column.unique()) for column in quantize(values.float(), 8).codes.T]
    assert sorted(computed(page, "used")) == sorted(used)
    assert page.locator(".vb-ruler span").count() == 3 and page.locator(".vb-error").count() == 0


def test_more_than_a_page_can_draw_is_refused():
    with pytest.raises(ValueError, match="4 tokens of 384 channels came, expected up to 1,024 of"):
        rounding_grid(torch.ones(4, 384))
