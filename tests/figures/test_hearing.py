"""Who hears on the page is whom the news of a token changes in the real layers."""

from math import isqrt

import pytest
import torch
from torch import nn

from vitbook import layers, measure
from vitbook.figures import hearing_map

WIDTH, KEYS, FEATURES = 16, 3, 5
SIDES = (4, 8, 12, 16, 32, 48, 64)
PATTERNS = ("all", "rows", "axial", "blocks", "near", "linformer", "performer")


class Neighbours(nn.Module):
    """Softmax attention in which a token reads the 3 x 3 tokens around it."""

    def __init__(self, side):
        super().__init__()
        row, column = torch.arange(side**2) // side, torch.arange(side**2) % side
        steps = [(each[:, None] - each).abs() for each in (row, column)]
        self.mask = torch.maximum(*steps) <= 1
        self.attention = layers.SelfAttention(WIDTH, 1)

    def forward(self, tokens):
        return self.attention(tokens, self.mask)


def real(pattern, side, number):
    """The layer that the figure means, as the first or the second of two."""
    grid = dict(grid_size=(side, side))
    if pattern in ("rows", "axial"):
        along = "columns" if (pattern, number) == ("axial", 2) else "rows"
        return layers.AxialSelfAttention(WIDTH, 1, **grid, along=along)
    if pattern == "blocks":
        return layers.BlockLocalSelfAttention(WIDTH, 1, **grid, block_size=4)
    if pattern == "near":
        return Neighbours(side)
    if pattern == "linformer":
        return layers.LinformerSelfAttention(WIDTH, 1, num_tokens=side**2, num_keys=KEYS)
    if pattern == "performer":
        return layers.PerformerSelfAttention(WIDTH, 1, num_features=FEATURES)
    return layers.SelfAttention(WIDTH, 1)


def hearers(pattern, side, sources, depth):
    """Tokens of the real layers' output that change with some tokens of the input."""
    torch.manual_seed(0)
    model = nn.Sequential(*(real(pattern, side, number) for number in range(1, depth + 1))).double()
    tokens = torch.randn(1, side**2, WIDTH, dtype=torch.double)
    news = tokens.clone()
    news[:, sources] = torch.randn(len(sources), WIDTH, dtype=torch.double)
    with torch.no_grad():
        change = (model(news) - model(tokens))[0].abs().amax(-1)
    return (change > 1e-12).tolist()


def computed(page, name):
    return page.evaluate(f"document.querySelector('.vitbook-figure').{name}")


def choose(page, pattern, side=None):
    if side is not None:
        page.locator("[data-control=side]").fill(str(SIDES.index(side)))
    page.locator("[data-control=pattern]").select_option(pattern)


def paint(page, *cells):
    """Press cells of the pad, one after another: each is painted, or wiped."""
    for cell in cells:
        page.locator("[data-control=token] button").nth(cell).click()


def painted(page):
    state = dict(each.split("=") for each in computed(page, "dataset.state").split())
    return [] if state["painted"] == "none" else list(map(int, state["painted"].split(",")))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_page_hears_what_changes(show, pattern):
    page = show(hearing_map(num_keys=KEYS, num_features=FEATURES))
    choose(page, pattern)
    for row, column in ((0, 0), (5, 2)):
        token = 8 * row + column
        paint(page, *painted(page), token) if token else None
        expected = [hearers(pattern, 8, [token], depth) for depth in (1, 2)]
        assert computed(page, "heard") == expected


@pytest.mark.parametrize("side", [4, 16])
@pytest.mark.parametrize("pattern", [each for each in PATTERNS if each != "near"])
def test_the_cost_is_that_of_the_real_layer(show, pattern, side):
    page = show(hearing_map(num_keys=KEYS, num_features=FEATURES))
    choose(page, pattern, side)
    with torch.device("meta"):
        layer, tokens = real(pattern, side, 1), torch.zeros(1, side**2, WIDTH)
    macs = measure.count_macs(layer, tokens) - 4 * WIDTH**2 * side**2  # without projections
    assert computed(page, "cost") * 2 * WIDTH == macs


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
    paint(page, 0, 9)
    assert page.locator(".vitbook-figure").get_attribute("data-reached") == "false"
    assert "opposite of row 2, column 2 hears after 2 layers" in (
        page.locator(".vb-readout").inner_text()
    )


def test_a_corner_stays_a_corner_on_every_grid(show, hearing):
    page = show(hearing)
    paint(page, 0, 63)
    for side in (64, 4, 12, 48):
        choose(page, "blocks", side)
        assert f" row {side}, column {side} " in page.locator(".vb-readout").inner_text()
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
            document.querySelectorAll('[data-control=token] button')[i].click();  // no pointer
          }
          return (performance.now() - begin) / 3;
        }"""
    )
    assert took < 500


def test_the_cost_of_neighbours_is_their_number(show):
    page = show(hearing_map(pattern="near"))
    for side in (4, 16):
        choose(page, "near", side)
        assert computed(page, "cost") == Neighbours(side).mask.sum().item()


def cell(page, row, column, side=8):
    box = page.locator(".vb-mask-pad").bounding_box()
    return (box["x"] + (column + 0.5) * box["width"] / side,
            box["y"] + (row + 0.5) * box["height"] / side)  # fmt: skip


def test_the_mouse_paints_and_wipes_and_the_news_of_all_spreads(show, hearing):
    page = show(hearing)
    page.mouse.move(*cell(page, 2, 1))
    page.mouse.down()
    page.mouse.move(*cell(page, 2, 5))  # in one step, over all between
    page.mouse.up()
    assert painted(page) == [0, 17, 18, 19, 20, 21]
    for pattern in ("near", "rows"):
        choose(page, pattern)
        expected = [hearers(pattern, 8, painted(page), depth) for depth in (1, 2)]
        assert computed(page, "heard") == expected
    assert "News of 6 tokens has reached 16 of 64." in page.locator(".vb-readout").inner_text()
    page.mouse.move(*cell(page, 2, 3))
    page.mouse.down()
    page.mouse.move(*cell(page, 0, 3))
    page.mouse.up()
    assert painted(page) == [0, 17, 18, 20, 21]
    paint(page, 0, 17, 18, 20, 21)
    assert "Nobody has news: paint a token." in page.locator(".vb-readout").inner_text()


def test_a_finger_paints_and_the_page_stays(touched, hearing):
    page, finger = touched(hearing, above=700)
    page.locator(".vb-mask-pad").evaluate("e => e.scrollIntoView({ block: 'center' })")
    top = page.evaluate("scrollY")
    finger(cell(page, 1, 3), cell(page, 2, 3), cell(page, 4, 3))
    assert painted(page) == [0, 11, 19, 27, 35] and page.evaluate("scrollY") == top


def test_the_keys_paint(show, hearing):
    page = show(hearing)
    page.locator("[data-control=token] [tabindex='0']").focus()
    for key in ("Space", "ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    assert painted(page) == [9]
    assert page.evaluate("document.activeElement.ariaPressed") == "true"


def test_news_is_watched_layer_by_layer(show, hearing):
    page = show(hearing)
    choose(page, "near")
    page.click("[data-control=play]")
    counts = []
    for layer in range(8):
        page.wait_for_function(
            f"document.querySelector('.vitbook-figure').dataset.state.endsWith('layers={layer}')"
        )
        counts.append(int(page.locator(".vb-ears .vb-note").nth(1).inner_text().split(" ")[0]))
    assert counts == [(layer + 1) ** 2 for layer in range(8)]
    page.wait_for_timeout(700)
    assert "layers=7" in computed(page, "dataset.state"), "it stops when all have heard"
    page.locator("[data-control=layers]").fill("3")
    assert "16 of 64" in page.locator(".vb-ears").inner_text()


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
