"""What a token hears of on the page is what its gradient reaches in the real layers."""

import re
from math import isqrt

import pytest
import torch
from torch import nn

from vitbook import layers, measure
from vitbook.explorer import hearing_map

WIDTH, KEYS, FEATURES = 16, 3, 5
SIDES = (4, 8, 12, 16, 32, 48, 64)
PATTERNS = ("all", "rows", "axial", "blocks", "linformer", "performer")


def real(pattern, side, number):
    """The layer that the figure means, as the first or the second of two."""
    grid = dict(grid_size=(side, side))
    if pattern in ("rows", "axial"):
        along = "columns" if (pattern, number) == ("axial", 2) else "rows"
        return layers.AxialSelfAttention(WIDTH, 1, **grid, along=along)
    if pattern == "blocks":
        return layers.BlockLocalSelfAttention(WIDTH, 1, **grid, block_size=4)
    if pattern == "linformer":
        return layers.LinformerSelfAttention(WIDTH, 1, num_tokens=side**2, num_keys=KEYS)
    if pattern == "performer":
        return layers.PerformerSelfAttention(WIDTH, 1, num_features=FEATURES)
    return layers.SelfAttention(WIDTH, 1)


def reached(pattern, side, token, depth):
    """Tokens that change one token of the real layers' output."""
    torch.manual_seed(0)
    model = nn.Sequential(*(real(pattern, side, number) for number in range(1, depth + 1)))
    tokens = torch.randn(1, side**2, WIDTH, dtype=torch.double, requires_grad=True)
    out = model.double()(tokens)[0, token]
    (slope,) = torch.autograd.grad(out @ torch.randn(WIDTH, dtype=torch.double), tokens)
    return (slope[0].abs().sum(-1) > 0).tolist()


def computed(page, name):
    return page.evaluate(f"document.querySelector('.vitbook-figure').{name}")


def choose(page, pattern, side=None):
    if side is not None:
        page.locator("[data-control=side]").fill(str(SIDES.index(side)))
    page.locator("[data-control=pattern]").select_option(pattern)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_page_and_the_still_hear_what_the_gradient_reaches(show, pattern):
    page = show(hearing_map(num_keys=KEYS, num_features=FEATURES))
    choose(page, pattern)
    for row, column in ((0, 0), (5, 2)):
        token = 8 * row + column
        page.locator("[data-control=token] button").nth(token).click()
        expected = [reached(pattern, 8, token, depth) for depth in (1, 2)]
        assert computed(page, "heard") == expected
        figure = hearing_map(
            pattern=pattern, token=(row, column), num_keys=KEYS, num_features=FEATURES
        )
        told = [int(count) for count in re.findall(r">(\d+) of 64, ", figure.still)]
        assert told == [sum(heard) for heard in expected]


@pytest.mark.parametrize("side", [4, 16])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_cost_is_that_of_the_real_layer(show, pattern, side):
    page = show(hearing_map(num_keys=KEYS, num_features=FEATURES))
    choose(page, pattern, side)
    with torch.device("meta"):
        layer, tokens = real(pattern, side, 1), torch.zeros(1, side**2, WIDTH)
    macs = measure.count_macs(layer, tokens) - 4 * WIDTH**2 * side**2  # without projections
    assert computed(page, "cost") * 2 * WIDTH == macs
    still = hearing_map(side, pattern=pattern, num_keys=KEYS, num_features=FEATURES).still
    assert f": {macs // (2 * WIDTH):,} pairs of {side**4:,}" in still


@pytest.mark.parametrize(
    ("side", "winners"),
    [(4, {"axial"}), (8, {"axial"}), (12, {"axial"}), (16, {"axial", "linformer"}),
     (32, {"linformer"}), (64, {"linformer"})],
)  # fmt: skip
def test_the_cheapest_that_carries_word_changes_with_the_grid(show, hearing, side, winners):
    page, found = show(hearing), set()
    for pattern in PATTERNS:
        choose(page, pattern, side)
        if page.locator(".vitbook-figure").get_attribute("data-reached") == "true":
            found.add(pattern)
    assert found == winners


def test_a_token_that_is_no_corner_does_not_reach(show, hearing):
    page = show(hearing)
    choose(page, "axial")
    page.locator("[data-control=token] button").nth(9).click()
    assert page.locator(".vitbook-figure").get_attribute("data-reached") == "false"
    assert "Row 2, column 2 hears" in page.locator(".vb-readout").inner_text()


def test_a_corner_stays_a_corner_on_every_grid(show, hearing):
    page = show(hearing)
    page.locator("[data-control=token] button").last.click()
    for side in (64, 4, 12, 48):
        choose(page, "blocks", side)
        assert f"Row {side}, column {side} " in page.locator(".vb-readout").inner_text()
        heard = computed(page, "heard")[1]
        assert sum(heard) == 16 and heard[-1] and isqrt(len(heard)) == side
        assert page.locator("[data-control=token] button").count() == min(side, 16) ** 2


def test_a_large_grid_answers_at_once(show, hearing):
    page = show(hearing)
    choose(page, "blocks", 64)
    took = page.evaluate(
        """() => {
          const begin = performance.now();
          for (const i of [5, 100, 255]) {
            document.querySelectorAll('[data-control=token] button')[i].click();
          }
          return (performance.now() - begin) / 3;
        }"""
    )
    assert took < 500


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (dict(side=10), "a side of 10 tokens came, expected one of"),
        (dict(pattern="swin"), "'swin', expected one of all, rows, axial"),
        (dict(token=(8, 0)), r"token came as \(8, 0\), expected row and column from 0 to 7"),
        (dict(num_keys=0), "0 keys and 45 features came, expected at least 1"),
    ],
)
def test_bad_input_gets_one_sentence(change, words):
    with pytest.raises(ValueError, match=words):
        hearing_map(**change)
