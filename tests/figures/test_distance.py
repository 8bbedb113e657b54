"""One head set by hand: the page's numbers are those of the probe."""

import re

import numpy as np
import pytest
import torch

from vitbook.analysis import attention_distance, uniform_attention_distance
from vitbook.figures import distance_meter

PAPER = ((14, 14), (16, 16))
OBLONG = ((4, 6), (5, 8))


def head(figure, width, share):
    """The maps of the head that the page shows, one class token in front."""
    (rows, columns), (down, across) = figure.data["grid"], figure.data["patch"]
    sigma = figure.data["widths"][width]
    places = torch.cartesian_prod(
        torch.arange(rows).double() * down, torch.arange(columns).double() * across
    )
    squares = (places[:, None] - places).pow(2).sum(-1)
    if sigma == 0:
        rows_ = torch.eye(len(places)).double()
    elif sigma is None:
        rows_ = torch.ones_like(squares)
    else:
        rows_ = torch.exp(-squares / (2 * sigma**2))
    maps = torch.zeros(1, 1, 1 + len(places), 1 + len(places)).double()
    maps[..., 0] = share / 100
    maps[..., 1:, 1:] = (1 - share / 100) * rows_ / rows_.sum(-1, keepdim=True)
    return maps


def put(page, width=None, share=None, renormalize=None):
    for control, value in (("width", width), ("share", share)):
        if value is not None:
            page.locator(f"[data-control={control}]").fill(str(value))
    button = page.locator("[data-control=renormalize]")
    if renormalize is not None and (button.get_attribute("aria-pressed") == "true") != renormalize:
        button.click()


def computed(page, name):
    return page.evaluate(f"document.querySelector('.vitbook-figure').{name}")


def numbers(page):
    """The three numbers of the product, as they are read."""
    return page.locator(".vb-product b").all_inner_texts()


def test_it_opens_on_the_misreading(show, meter):
    page = show(meter)
    assert numbers(page) == ["0.50", "116 px", "58 px"]
    assert "takes 58 px off the 116 px" in page.locator(".vb-readout").inner_text()
    put(page, renormalize=True)
    assert numbers(page) == ["1", "116 px", "116 px"]
    assert "0.50 × 116 px = 58 px" in meter.description


@pytest.mark.parametrize(("grid", "patch"), [PAPER, OBLONG])
def test_the_page_computes_the_probe(show, grid, patch):
    figure = distance_meter(grid, patch)
    page = show(figure)
    for width, share in [(100, 50), (100, 0), (45, 0), (45, 30), (1, 80), (0, 10), (99, 99)]:
        maps = head(figure, width, share)
        for renormalize in (False, True):
            put(page, width, share, renormalize)
            expected = attention_distance(maps, grid, patch, 1, renormalize).item()
            assert computed(page, "distance") == pytest.approx(expected, abs=1e-6)
            assert numbers(page)[2] == f"{expected:.{figure.data['digits']}f} px"
            row = maps[0, 0, 1 + figure.data["query"], 1:]
            row = row / row.sum() if renormalize else row
            assert computed(page, "row") == pytest.approx(row.numpy(), abs=1e-9)


def test_one_query_has_its_own_distance(show, meter):
    page = show(meter)
    maps = head(meter, 100, 50)

    def alone():
        return float(re.search(r"alone: (\S+) px", page.locator(".vb-live").inner_text())[1])

    def of(row, column):
        y, x = np.divmod(np.arange(196), 14)
        weights = maps[0, 0, 1, 1:].numpy()  # uniform: the same from everywhere
        return float(weights @ (16 * np.hypot(y - row, x - column)))

    assert alone() == pytest.approx(of(7, 7), abs=0.5)
    page.get_by_role("radio", name="patch in row 1, column 1", exact=True).click()
    assert alone() == pytest.approx(of(0, 0), abs=0.5) and numbers(page)[2] == "58 px"
    page.keyboard.press("ArrowRight")
    assert alone() == pytest.approx(of(0, 1), abs=0.5)
    assert "query=1 " in page.locator(".vitbook-figure").get_attribute("data-state")


def test_the_other_head_is_found_and_renormalising_tells_them_apart(show, meter):
    page = show(meter)
    figure = page.locator(".vitbook-figure")
    assert figure.get_attribute("data-reached") == "false"
    reached = []
    put(page, share=0)
    for width in range(101):
        put(page, width)
        if figure.get_attribute("data-reached") == "true":
            reached.append(computed(page, "distance"))
    assert reached and np.abs(np.array(reached) - meter.data["goal"]).max() < 1.6
    put(page, int(np.argmin(np.abs(distances(meter) - meter.data["goal"]))))
    found = numbers(page)[2]
    assert found in ("57 px", "58 px", "59 px")
    assert "Now renormalise it" in page.locator(".vb-readout").inner_text()
    put(page, renormalize=True)
    assert numbers(page)[2] == found
    assert "the first head goes to 116 px" in page.locator(".vb-readout").inner_text()


def distances(figure):
    """What each place of the width's slider gives with nothing on the class token."""
    grid, patch = figure.data["grid"], figure.data["patch"]
    return np.array(
        [
            attention_distance(head(figure, level, 0), tuple(grid), tuple(patch), 1).item()
            for level in range(101)
        ]
    )


@pytest.mark.parametrize(("grid", "patch"), [PAPER, OBLONG, ((4, 4), (2, 2)), ((24, 24), (16, 16))])
def test_the_slider_moves_the_distance_evenly_and_can_reach_the_goal(grid, patch):
    figure = distance_meter(grid, patch)
    steps = np.diff(distances(figure))
    uniform = uniform_attention_distance(grid, patch)
    assert steps.sum() == pytest.approx(uniform, rel=1e-6)
    assert (steps > 0).all() and steps.max() < 2 * uniform / 75


def test_all_on_the_class_token_is_nothing_to_renormalise(show, meter):
    page = show(meter)
    put(page, share=100)
    assert numbers(page)[2] == "0 px"
    assert "none looks at any patch" in page.locator(".vb-readout").inner_text()
    put(page, renormalize=True)
    assert numbers(page) == ["0/0", "none", "none"]
    assert "0/0 is no distance" in page.locator(".vb-readout").inner_text()


def test_the_goal_goes_where_there_is_none():
    for share in (0, 1):
        figure = distance_meter(on_class_token=share)
        assert figure.data["goal"] is None and figure.data["task"] == ""
    assert distance_meter(task="Look.").data["task"] == "Look."


def test_a_small_image_is_measured_in_tenths(show):
    page = show(distance_meter((4, 4), 2, on_class_token=0.25))
    assert numbers(page) == ["0.75", "4.0 px", "3.0 px"]
    assert "publishes 3.0 px" in page.locator(".vb-task").inner_text()


def test_a_large_grid_answers_at_once(show):
    page = show(distance_meter((32, 32), 16))
    took = page.evaluate(
        """() => {
          const slider = document.querySelector('[data-control=width]');
          const begin = performance.now();
          for (const value of [20, 40, 60]) {
            slider.value = value;
            slider.dispatchEvent(new Event('input'));
          }
          return (performance.now() - begin) / 3;
        }"""
    )
    assert took < 500


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (((1, 1), 16), "a grid of 1x1 patches of 16x16 px, expected 2 to 1,024 patches"),
        (((40, 40), 16), "a grid of 40x40 patches"),
        (((-4, -4), 16), "a grid of -4x-4 patches"),
        (((4, 4), (8, 0)), "of 8x0 px, expected .* of at least 1 px"),
    ],
)
def test_bad_input_gets_one_sentence(arguments, words):
    with pytest.raises(ValueError, match=words):
        distance_meter(*arguments)
    with pytest.raises(ValueError, match=r"on_class_token came as 50.0, expected a share from 0"):
        distance_meter(on_class_token=50.0)
