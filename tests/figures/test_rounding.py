"""Channels on a grid: the page, the still and the library round alike."""

import re
from importlib import import_module

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vitbook.figures import rounding_grid
from vitbook.layers import quantize

rounding = import_module("vitbook.figures.rounding_grid")
# Channels are rows of float32 in Node, as in the page.
FLOATS = "channels.map((values) => Float32Array.from(values))"


def library(values, bits, each, percent=100):
    """Codes used and errors in percent, loudest channel first, by `vitbook.layers.quantize`."""
    values = values[:, values.abs().amax(0).argsort(descending=True, stable=True)].clone()
    values[:, 0] *= percent / 100
    codes, step = found = quantize(values, bits, dim=0 if each else None)
    used = [len(column.unique()) for column in codes.T]
    change = (found.values.double() - values.double()).square().mean(0)
    errors = 100 * (change / values.double().square().mean(0)).sqrt()
    return codes, step, used, errors.nan_to_num().tolist()


def put(page, bits=None, each=None, scale=None):
    if bits is not None:
        page.locator("[data-control=bits]").fill(str(bits))
    if each is not None:
        page.locator("[data-control=each] button").nth(each).click()
    if scale is not None:
        link = page.locator(".vb-link").get_attribute("href")
        page.evaluate("(to) => (location.hash = to)", re.sub(r"scale=\d+", f"scale={scale}", link))
        page.wait_for_function(
            "(to) => document.querySelector('.vitbook-figure').dataset.state.endsWith(to)",
            arg=f"scale={scale}",
        )


def computed(page, name):
    return page.evaluate(f"document.querySelector('.vitbook-figure').{name}")


def state(page, nth=0):
    return page.locator(".vitbook-figure").nth(nth).get_attribute("data-state")


def reached(page):
    return page.locator(".vitbook-figure").get_attribute("data-reached") == "true"


def said(page):
    return page.locator(".vb-readout").inner_text()


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("bits", range(2, 9))
def test_node_rounds_as_the_library(js, loud, bits, each):
    codes, step, used, errors = library(loud, bits, each, percent=45)
    order = loud.abs().amax(0).argsort(descending=True, stable=True)
    live = js("rounding_grid", f"roundChannels(scaled({FLOATS}, 45), bits, each)",
              channels=loud.T[order], bits=bits, each=each)  # fmt: skip
    assert [row["codes"] for row in live] == codes.T.tolist()
    assert [row["step"] for row in live] == step.expand(1, 6)[0].tolist()
    assert [row["used"] for row in live] == used
    assert [row["error"] for row in live] == pytest.approx(errors, rel=1e-6)


@settings(deadline=None, max_examples=60)
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


@pytest.mark.parametrize("each", [0, 1])
@pytest.mark.parametrize("bits", [2, 5, 8])
def test_the_page_shows_the_librarys_numbers(show, loud, rounds, bits, each):
    page = show(rounds)
    for scale in (10, 100, 300):
        put(page, bits, each, scale)
        _, _, used, errors = library(loud, bits, bool(each), scale)
        assert computed(page, "used") == used
        assert computed(page, "errors") == pytest.approx(errors, rel=1e-6)
        shown = page.locator(".vb-channel > :nth-child(n + 3)").all_inner_texts()[2:]
        told = [text for pair in zip(used, map(rounding.percent, errors), strict=True)
                for text in map(str, pair)]  # fmt: skip
        assert shown == told
        middle = f"uses {sorted(used)[2]} of {2**bits - 1} codes, error "
        assert middle + rounding.percent(sorted(errors)[2]) in said(page)
        assert reached(page) == (bits == 6 and not each and sorted(used)[2] >= 8)


def test_it_starts_as_its_caption_says(show, loud, rounds):
    page = show(rounds)
    assert state(page) == "bits=6 each=0 scale=100" and not reached(page)
    names = page.locator(".vb-channel > b").all_inner_texts()
    assert names == ["very <loud>", "b", "d", "f", "e", "a"]
    _, _, used, errors = library(loud, 6, False)
    _, _, own, fewer = library(loud, 6, True)
    assert rounds.description == (
        "At the start: with 6 bits there are 63 codes. One step for all channels has to reach the "
        "largest absolute value, which is in very <loud>: the median channel uses "
        f"{sorted(used)[2]} codes, with an error of {rounding.percent(sorted(errors)[2])}. "
        f"With a step for each channel it uses {sorted(own)[2]}, with an error of "
        f"{rounding.percent(sorted(fewer)[2])}."
    )


def test_the_task_is_reached_by_scaling_down_and_by_nothing_else(show, rounds):
    page = show(rounds)
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


@pytest.mark.parametrize("scale", [10, 30, 100])
def test_it_says_which_channel_sets_the_step(show, loud, scale):
    loud[:, 1] *= 3
    page = show(rounding_grid(loud))
    put(page, scale=scale)
    most = loud.abs().amax(0) * torch.tensor([1, 1, scale / 100, 1, 1, 1])
    assert f"The step comes from channel {most.argmax()}." in said(page)
    assert most.argmax() == (1 if scale == 10 else 2)
    put(page, each=1)
    assert "The step comes from" not in said(page)


def test_keys_scale_within_limits(show, rounds):
    page, knob = show(rounds), ".vb-knob"
    page.locator(knob).focus()
    page.keyboard.press("ArrowUp")
    assert state(page).endswith("scale=105")
    assert page.locator(knob).get_attribute("aria-valuetext") == "1.05 ×"
    for key, last in (("ArrowRight", 300), ("ArrowDown", 10)):
        for _ in range(60):
            page.keyboard.press(key)
        assert state(page).endswith(f"scale={last}")
        assert page.locator(knob).get_attribute("aria-valuenow") == str(last)


def center(page):
    box = page.locator(".vb-knob").bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@pytest.mark.parametrize("width", [900, 390])
def test_the_knob_follows_the_mouse(show, rounds, width):
    page = show(rounds, width=width)
    line = page.locator(".vb-along").first.bounding_box()
    page.mouse.move(*center(page))
    page.mouse.down()
    for part in (0.8, 0.7, 0.6):
        page.mouse.move(line["x"] + part * line["width"], line["y"] + 9)
        assert state(page).endswith(f"scale={5 * round(25 * (2 * part - 1)):.0f}")
        assert center(page)[0] == pytest.approx(line["x"] + part * line["width"], abs=9)
    page.mouse.move(line["x"] + 3 * line["width"], line["y"] + 9)
    assert state(page).endswith("scale=300"), "beyond the line it grows louder"
    assert center(page)[0] < line["x"] + line["width"], "and the line grows with it"
    page.mouse.up()
    page.click("[data-control=reset]")
    assert state(page) == "bits=6 each=0 scale=100"


def test_a_finger_drags_the_knob_and_scrolls_beside_it(touched, rounds):
    page, finger = touched(rounds)
    x, y = center(page)
    finger((x, y), (x - 10, y), (x - 40, y))
    assert int(state(page).rsplit("=")[-1]) < 80 and page.evaluate("scrollY") == 0
    before, line = state(page), page.locator(".vb-along").nth(3).bounding_box()
    finger((line["x"] + 60, line["y"]), (line["x"] + 60, line["y"] - 40),
           (line["x"] + 60, line["y"] - 120))  # fmt: skip
    assert page.evaluate("scrollY") > 0 and state(page) == before


@pytest.mark.parametrize("width", [1280, 390])
def test_strips_are_as_sharp_as_the_screen(show, rounds, width):
    page = show(rounds, width=width)
    sizes = (
        "[...document.querySelectorAll('.vb-along canvas')].map((c) => [c.width, c.clientWidth])"
    )
    assert all(own == seen > 100 for own, seen in page.evaluate(sizes))
    page.set_viewport_size({"width": 700 if width > 700 else 600, "height": 900})
    page.wait_for_function(f"{sizes}.every(([own, seen]) => own === seen)")


def test_a_link_restores_what_was_chosen(show, rounds):
    page = show(rounds)
    put(page, bits=4, each=1, scale=35)
    chosen, link = state(page), page.locator(".vb-link").get_attribute("href")
    assert link == "#rounding?bits=4&each=1&scale=35" and chosen == "bits=4 each=1 scale=35"
    page.click("[data-control=reset]")
    assert state(page) != chosen
    page.reload()
    page.wait_for_selector(".vitbook-figure[data-ready=true]")
    assert state(page) == chosen


def test_two_on_a_page_have_links_of_their_own(show, rounds, gallery):
    page = show(rounds, gallery, rounds)
    links = [link.get_attribute("href").split("?")[0] for link in page.locator(".vb-link").all()]
    assert links == ["#rounding", "#attention", "#rounding2"]
    page.evaluate("location.hash = '#rounding2?bits=3'")
    page.wait_for_function(
        "document.querySelectorAll('.vitbook-figure')[2].dataset.state.startsWith('bits=3')"
    )
    assert state(page) == "bits=6 each=0 scale=100"


def test_a_link_gives_only_what_the_figure_has(js):
    limits = {"bits": [2, 8], "each": [0, 1], "scale": [10, 300]}
    text = "bits=9&each=0.5&scale=35&toString=1&x=2"
    assert js("address", "stated(text, limits)", text=text, limits=limits) == {"scale": 35}


def test_a_silent_channel_has_no_error(show, loud):
    loud[:, 3] = 0
    figure = rounding_grid(loud, bits=4)
    page = show(figure)
    assert figure.data["names"][-1] == "channel 3" and figure.data["task"] == ""
    for each in (0, 1):
        put(page, each=each)
        assert (computed(page, "used")[-1], computed(page, "errors")[-1]) == (1, 0)


@pytest.mark.parametrize("factor", [1e-38, 1e-3, 1e5, 1e36])
def test_any_magnitude_has_a_number_line(show, loud, factor):
    figure = rounding_grid(loud.double() * factor)
    page = show(figure)
    used = [
        len(column.unique()) for column in quantize((loud.double() * factor).float(), 8).codes.T
    ]
    assert sorted(computed(page, "used")) == sorted(used)
    assert page.locator(".vb-ruler span").count() == 3 and page.locator(".vb-error").count() == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_floating_points_are_those_of_float32(loud, dtype):
    given = loud.to(dtype).requires_grad_()
    assert rounding_grid(given).data == rounding_grid(given.detach().float()).data


def test_a_large_page_answers_at_once(show):
    values = torch.randn(1024, 32, generator=torch.Generator().manual_seed(0))
    page = show(rounding_grid(values))
    took = page.evaluate(
        """() => {
          const slider = document.querySelector('[data-control=bits]');
          const begin = performance.now();
          for (const bits of [3, 5, 7]) {
            slider.value = bits;
            slider.dispatchEvent(new Event('input'));
          }
          return (performance.now() - begin) / 3;
        }"""
    )
    assert took < 300


BAD = torch.linspace(-1, 1, 30).reshape(10, 3)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (dict(values=BAD * torch.nan), "hold NaN, infinity or numbers beyond float32: expected"),
        (dict(values=BAD / 0), "hold NaN, infinity"),
        (dict(values=BAD.double() * 2e38), "hold NaN, infinity or numbers beyond float32"),
        (dict(values=BAD * 0), "the values are all zero"),
        (dict(values=BAD[0]), r"shape \(3,\), expected \(tokens, channels\): put the tokens of"),
        (dict(values=BAD[None]), r"shape \(1, 10, 3\), expected \(tokens, channels\)"),
        (dict(values=BAD[:, :0]), "10 tokens of 0 channels came, expected 1 to 1,024 tokens of 2"),
        (dict(values=BAD[:, :1]), "10 tokens of 1 channels came"),
        (dict(values=BAD[:0]), "0 tokens of 3 channels came"),
        (dict(values=torch.ones(4, 384)), "384 channels came, .* of 2 to 32 channels, which a pag"),
        (dict(values=torch.ones(2000, 3)), "2,000 tokens of 3 channels came, expected 1 to 1,024"),
        (dict(names="ab"), "2 names came, expected 3: one for each channel"),
        (dict(bits=1), "1 bits: expected a whole number from 2 to 8"),
        (dict(bits=9), "9 bits: expected"),
        (dict(bits=True), "True bits: expected"),
        (dict(goal=3), r"goal came as 3 codes; the median channel uses 10 at the start and at"),
    ],
)
def test_bad_input_gets_one_sentence(changed, words):
    given = dict(values=BAD) | changed
    with pytest.raises(ValueError, match=words):
        rounding_grid(given.pop("values"), **given)


@pytest.mark.parametrize("goal", ["many", 4.5, True, torch.nan])
def test_a_goal_is_a_whole_number(loud, goal):
    with pytest.raises(
        ValueError, match=f"goal came as {goal!r}, expected a whole number of codes"
    ):
        rounding._check_goal(goal, loud.T.numpy(), 6)


def test_a_goal_is_one_that_scaling_can_reach(loud):
    with pytest.raises(ValueError, match=r"expected a goal from \d+ to \d+") as error:
        rounding_grid(loud, bits=6, goal=64)
    first, last = map(int, re.findall(r"\d+", str(error.value))[-2:])
    for goal in (first, last):
        assert rounding_grid(loud, bits=6, goal=goal).data["goal"] == goal
    for goal in (first - 1, last + 1):
        with pytest.raises(ValueError, match=f"goal came as {goal} codes"):
            rounding_grid(loud, bits=6, goal=goal)


@pytest.mark.parametrize("values", [BAD.int(), [["a", "b"]], BAD > 0])
def test_whole_numbers_are_refused(values):
    with pytest.raises(TypeError, match="expected floating point: pass what a layer gives"):
        rounding_grid(values)
