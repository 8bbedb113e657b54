"""Frequencies of a table of positions: the page's cosines are those of torch's transform."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from reading import computed, pick, put, reached, said, state
from small_inputs import seeded

from vitbook.figures import place_waves
from vitbook.figures.place_waves import likeness_of_waves


def noise(rows=4, columns=6, width=40, seed=3):
    return torch.randn(rows, columns, width, generator=seeded(seed))


def sample():
    """A table that is its own mirror image, and one of noise, on a grid of 4 by 6."""
    tables = {"mirrored": noise() + noise().flip(1), "noise": noise()}
    return place_waves(tables, task="Find it.")


def cosines(table, keep):
    """By projecting on every kept cosine and sine, one wave at a time.

    `keep`: the most turns, or turns down and across of each wave.
    """
    rows, columns, width = table.shape
    y, x = torch.arange(rows)[:, None] / rows, torch.arange(columns) / columns
    kept = torch.zeros(rows, columns, width, dtype=torch.complex128)
    for u in range(-rows, rows + 1):
        for v in range(-columns, columns + 1):
            on = max(abs(u), abs(v)) <= keep if isinstance(keep, int) else (abs(u), abs(v)) in keep
            if on and -rows / 2 < u <= rows / 2 and -columns / 2 < v <= columns / 2:
                wave = torch.exp(2j * torch.pi * (u * y + v * x).double())[..., None]
                kept += wave * (wave.conj() * table).mean((0, 1))
    units = F.normalize(kept.real.reshape(rows * columns, width), dim=1)
    return units @ units.T


def at(page, keep, place):
    put(page, keep=keep)
    pick(page, "place", place)


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_the_page_computes_the_likeness_of_what_is_kept(page, keep):
    for row, column in ((0, 0), (3, 4)):
        at(page, keep, row * 6 + column)
        for table, value in zip((noise() + noise().flip(1), noise()), computed(page, "found"),
                                strict=True):  # fmt: skip
            expected = cosines(table, keep)[row * 6 + column, row * 6 + 5 - column].item()
            assert value == pytest.approx(expected, abs=0.002)


def switch(page, *waves):
    for down, across in waves:
        pick(page, "waves", 4 * down + across)


@pytest.mark.parametrize("waves", [((0, 1),), ((2, 3),), ((0, 0), (0, 1), (2, 1), (1, 3))])
def test_waves_are_switched_one_at_a_time(show, waves):
    page = show(place_waves({"noise": noise(), "other": noise(seed=4)}))
    at(page, 0, 7)
    switch(page, (0, 0), *waves) if (0, 0) not in waves else switch(page, *waves[1:])
    assert page.locator("[data-control=waves] [aria-pressed=true]").count() == len(waves)
    for table, value in zip((noise(), noise(seed=4)), computed(page, "found"), strict=True):
        expected = cosines(table, set(waves))
        mask = np.array([[(u, v) in waves for v in range(4)] for u in range(3)])
        assert likeness_of_waves(table.numpy(), mask) == pytest.approx(expected.numpy(), abs=1e-5)
        assert value == pytest.approx(expected[7, 10].item(), abs=0.003)
    if len(waves) > 1:
        assert f"{len(waves)} chosen" in page.locator(".vb-amount").inner_text()


def test_without_a_wave_there_is_no_direction_and_the_mean_alone_is_alike(page):
    put(page, keep=0)
    assert computed(page, "found") == pytest.approx([1, 1]) and "up to 0 of 3" in page.content()
    switch(page, (0, 0))
    assert computed(page, "found") == [None, None]
    words = "No frequency is on: every position has a vector of zeros, which has no direction."
    assert said(page).strip() == words


def test_a_mirrored_table_is_alike_and_a_slow_wave_wraps_round(page):
    nulls = {}
    for keep in (1, 2, 3):
        at(page, keep, 6)
        learned, nulls[keep] = computed(page, "found")
        assert learned == pytest.approx(1)  # the law: mirrored at every number of waves
    assert nulls[1] > 0.4 > abs(nulls[3])  # opposite edges meet in a wave


def test_the_task_is_reached_at_an_edge_where_the_null_is_not_alike(page):
    found = set()
    for keep in (1, 2, 3):
        for place in (6, 8):
            at(page, keep, place)
            if reached(page):
                found.add((keep, place))
    assert (3, 6) in found and not {(1, 6), (3, 8)} & found
    assert "mirror image" in said(page)


def test_the_caption_tells_the_start(page):
    assert state(page) == "place=18 keep=1"
    assert f"noise {cosines(noise(), 1)[18, 23].item():.2f} (" in sample().description


def test_a_grid_of_too_many_pairs_is_refused():
    with pytest.raises(ValueError, match="a grid of 13x12 positions: expected up to 144"):
        place_waves({"a": noise(13, 12), "b": noise(13, 12)})
