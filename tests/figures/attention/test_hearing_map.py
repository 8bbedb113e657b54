"""Who hears on the page is whom the news of a token changes in the real layers."""

from functools import cache
from math import isqrt

import pytest
import torch
from reading import computed, parts, pick, put, reached, said
from torch import nn

from vitbook import layers, measure
from vitbook.figures import hearing_map

WIDTH, KEYS, FEATURES = 16, 8, 45  # the last two as in the figure
SIDES = (4, 8, 12, 16, 32, 48, 64)
PATTERNS = ("all", "rows", "axial", "cross", "blocks", "swin", "near")


@cache
def sample():
    return hearing_map(task="Carry word from corner to corner.")


class Cross(layers.SelfAttention):
    """A token reads its row and its column in one layer."""

    def __init__(self, side):
        super().__init__(WIDTH, 1)
        row, column = torch.arange(side**2) // side, torch.arange(side**2) % side
        self.read = (row[:, None] == row) | (column[:, None] == column)

    def forward(self, tokens):
        return super().forward(tokens, self.read)


def real(pattern, side, number):
    """The layer that the figure means, as the first or the second of two."""
    grid = dict(grid_size=(side, side))
    if pattern in ("rows", "axial"):
        along = "columns" if (pattern, number) == ("axial", 2) else "rows"
        return layers.AxialSelfAttention(WIDTH, 1, **grid, along=along)
    if pattern == "swin":
        shift = (0, 0) if number % 2 else (2, 2)
        return layers.WindowSelfAttention(WIDTH, 1, **grid, window_size=4, shift=shift)
    if pattern == "blocks":
        return layers.BlockLocalSelfAttention(WIDTH, 1, **grid, block_size=4)
    if pattern == "near":
        return layers.NeighborhoodSelfAttention(WIDTH, 1, **grid, window_size=3)
    if pattern == "cross":
        return Cross(side)
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


def choose(page, pattern, side=None):
    if side is not None:
        put(page, side=SIDES.index(side))
    page.locator("[data-control=pattern]").select_option(pattern)


def paint(page, *cells):
    """Press cells of the pad, one after another: each is painted, or wiped."""
    for cell in cells:
        pick(page, "token", cell)


def painted(page):
    cells = parts(page)["painted"]
    return [] if cells == "none" else list(map(int, cells.split(",")))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_page_hears_what_changes_at_the_cost_of_the_real_layer(page, pattern):
    choose(page, pattern)
    paint(page, 0, 42)
    assert computed(page, "heard") == [hearers(pattern, 8, [42], depth) for depth in (1, 2)]
    for side in (4, 16):
        choose(page, pattern, side)
        layer = real(pattern, side, 1)
        if pattern in ("near", "cross"):
            read = layer.windows(torch.device("cpu"))[1] if pattern == "near" else layer.read
            assert computed(page, "cost") == read.sum().item()
            continue
        macs = measure.count_macs(layer, torch.zeros(1, side**2, WIDTH))
        assert computed(page, "cost") * 2 * WIDTH == macs - 4 * WIDTH**2 * side**2  # no projections


@pytest.mark.parametrize("side", [8, 64])
def test_a_row_and_then_a_column_is_the_cheapest_that_carries_word(page, side):
    found = []
    for pattern in PATTERNS:
        choose(page, pattern, side)
        if reached(page):
            found.append(pattern)
    assert found == ["axial"]


def test_windows_that_move_hear_as_the_real_layers_at_any_depth(page):
    choose(page, "swin", 12)
    paint(page, 0, 30)
    for depth in (3, 4):
        put(page, layers=depth)
        heard = sum(hearers("swin", 12, [30], depth))
        assert f"{heard} of 144 tokens" in page.locator(".vb-ears").inner_text()


def test_what_leaves_nobody_out_has_the_cost_of_the_real_layer(page):
    for side in (8, 64):
        choose(page, "rows", side)
        for kind, name in (("linformer", "Linformer"), ("performer", "Performer")):
            macs = measure.count_macs(real(kind, side, 1), torch.zeros(1, side**2, WIDTH))
            cost = (macs - 4 * WIDTH**2 * side**2) // (2 * WIDTH)
            bar = page.locator(".vb-price", has_text=name)
            assert f"{cost:,}" in bar.inner_text()


def test_a_token_that_is_no_corner_does_not_reach(page):
    choose(page, "axial")
    paint(page, 0, 9)
    assert not reached(page) and "opposite of row 2, column 2 hears after 2 layers" in said(page)


def test_the_caption_tells_the_start(page):
    heard = [sum(each) for each in computed(page, "heard")]
    assert f"After one layer {heard[0]} of 64 tokens" in sample().description
    assert f"after two {heard[1]}. A layer computes {computed(page, 'cost')} of 4,096 pairs" in (
        sample().description
    )


def test_a_corner_stays_a_corner_on_every_grid(page):
    paint(page, 0, 63)
    for side in (64, 4):
        choose(page, "blocks", side)
        assert f" row {side}, column {side} " in said(page)
        heard = computed(page, "heard")[1]
        assert sum(heard) == 16 and heard[-1] and isqrt(len(heard)) == side
        assert page.locator("[data-control=token] button").count() == min(side, 16) ** 2


def cell(page, row, column, side=8):
    box = page.locator(".vb-mask-pad").bounding_box()
    return (box["x"] + (column + 0.5) * box["width"] / side,
            box["y"] + (row + 0.5) * box["height"] / side)  # fmt: skip


def test_the_mouse_paints_and_wipes_and_the_news_of_all_spreads(page):
    page.mouse.move(*cell(page, 2, 1))
    page.mouse.down()
    page.mouse.move(*cell(page, 2, 5))  # in one step, over all between
    page.mouse.up()
    assert painted(page) == [0, 17, 18, 19, 20, 21]
    for pattern in ("near", "rows"):
        choose(page, pattern)
        expected = [hearers(pattern, 8, painted(page), depth) for depth in (1, 2)]
        assert computed(page, "heard") == expected
    assert "News of 6 tokens has reached 16 of 64." in said(page)
    page.mouse.move(*cell(page, 2, 3))
    page.mouse.down()
    page.mouse.move(*cell(page, 0, 3))
    page.mouse.up()
    assert painted(page) == [0, 17, 18, 20, 21]
    paint(page, 0, 17, 18, 20, 21)
    assert "Nobody has news: paint a token." in said(page)


def test_news_is_watched_layer_by_layer(page):
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
    assert parts(page)["layers"] == "7", "it stops when all have heard"
    put(page, layers=3)
    assert "16 of 64" in page.locator(".vb-ears").inner_text()
