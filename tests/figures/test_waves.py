"""Waves of a table of positions: the page's cosines are those of torch's transform."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from vitbook.figures import place_waves
from vitbook.figures.place_waves import likeness_of_waves


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


def noise(rows=4, columns=6, width=40, seed=3):
    return torch.randn(rows, columns, width, generator=torch.Generator().manual_seed(seed))


def put(page, keep=None, place=None):
    if keep is not None:
        page.locator("[data-control=keep]").fill(str(keep))
    if place is not None:
        page.locator("[data-control=place] button").nth(place).click()


def found(page):
    return page.evaluate("document.querySelector('.vitbook-figure').found")


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_the_page_computes_the_likeness_of_what_is_kept(show, waves, keep):
    page = show(waves)
    for row, column in ((0, 0), (3, 4)):
        put(page, keep, row * 6 + column)
        for table, value in zip((noise() + noise().flip(1), noise()), found(page), strict=True):
            expected = cosines(table, keep)[row * 6 + column, row * 6 + 5 - column].item()
            assert value == pytest.approx(expected, abs=0.002)


def switch(page, *waves):
    for down, across in waves:
        page.locator("[data-control=waves] button").nth(4 * down + across).click()


@pytest.mark.parametrize(
    "waves", [((0, 1),), ((1, 0), (0, 2)), ((2, 3),), ((0, 0), (0, 1), (2, 1), (1, 3))]
)
def test_waves_are_switched_one_at_a_time(show, waves_of_noise, waves):
    page = show(waves_of_noise)
    put(page, keep=0, place=7)
    switch(page, (0, 0), *waves) if (0, 0) not in waves else switch(page, *waves[1:])
    assert page.locator("[data-control=waves] [aria-pressed=true]").count() == len(waves)
    for table, value in zip((noise(), noise(seed=4)), found(page), strict=True):
        expected = cosines(table, set(waves))
        mask = np.array([[(u, v) in waves for v in range(4)] for u in range(3)])
        assert likeness_of_waves(table.numpy(), mask) == pytest.approx(expected.numpy(), abs=1e-5)
        assert value == pytest.approx(expected[7, 10].item(), abs=0.003)
    if len(waves) > 1:
        assert f"{len(waves)} chosen" in page.locator(".vb-amount").inner_text()


@pytest.fixture
def waves_of_noise():
    return place_waves({"noise": noise(), "other": noise(seed=4)}, keep=2)


def test_without_a_wave_there_is_no_direction_and_the_mean_alone_is_alike(show, waves):
    page = show(waves)
    put(page, keep=0)
    assert found(page) == pytest.approx([1, 1]) and "up to 0 of 3" in page.content()
    switch(page, (0, 0))
    assert found(page) == [None, None]
    words = page.locator(".vb-readout").inner_text()
    assert words.strip() == (
        "No wave is on: every place has a vector of zeros, which has no direction."
    )
    page.locator("[data-control=reset]").click()
    assert page.locator("[data-control=waves] [aria-pressed=true]").count() == 9


def test_the_keys_walk_and_switch_and_a_finger_does(show, touched, waves):
    page = show(waves)
    page.locator("[data-control=waves] [tabindex='0']").focus()
    for key in ("ArrowRight", "ArrowDown", "Space"):
        page.keyboard.press(key)
    by_keys = found(page)
    assert page.evaluate("document.activeElement.ariaLabel") == "wave of 1 turns down, 1 across"
    assert page.evaluate("document.activeElement.ariaPressed") == "false"
    phone, finger = touched(waves)
    box = phone.locator("[data-control=waves] button").nth(5).bounding_box()
    assert min(box["width"], box["height"]) >= 24
    finger((box["x"] + box["width"] / 2, box["y"] + box["height"] / 2))
    assert found(phone) == by_keys == pytest.approx(
        [1, cosines(noise(), {(0, 0), (0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (2, 2)})[
            18, 23].item()], abs=0.003)  # fmt: skip


def test_a_mirrored_table_is_alike_and_a_slow_wave_wraps_round(show, waves):
    page = show(waves)
    nulls = {}
    for keep in (1, 2, 3):
        put(page, keep, 6)
        learned, nulls[keep] = found(page)
        assert learned == pytest.approx(1)  # the law: mirrored at every number of waves
    assert nulls[1] > 0.4 > abs(nulls[3])  # opposite edges meet in a wave


def test_the_task_is_reached_at_an_edge_where_the_null_is_not_alike(show, waves):
    page, reached = show(waves), set()
    for keep in (1, 2, 3):
        for place in (6, 8):
            put(page, keep, place)
            if page.locator(".vitbook-figure").get_attribute("data-reached") == "true":
                reached.add((keep, place))
    assert (3, 6) in reached and not {(1, 6), (3, 8)} & reached
    assert "mirror image" in page.locator(".vb-readout").inner_text()


def test_reset_and_the_caption_tell_the_start(show, waves):
    page = show(waves)
    before = page.locator(".vitbook-figure").get_attribute("data-state")
    put(page, 3, 0)
    page.locator("[data-control=reset]").click()
    assert page.locator(".vitbook-figure").get_attribute("data-state") == before
    assert before == "place=18 keep=2"
    expected = cosines(noise(), 2)[18, 23].item()
    told = f"noise {expected:.2f} ("
    assert told in waves.description


@pytest.mark.parametrize(
    ("tables", "change", "words"),
    [
        ({"a": noise()}, {}, r"tables came as a \(4, 6, 40\): expected two or three"),
        ({"a": noise(), "b": noise(5, 6)}, {}, "on one grid"),
        ({"a": noise(), "b": noise() * torch.nan}, {}, "tables hold NaN or infinity"),
        ({"a": noise(13, 12), "b": noise(13, 12)}, {}, "a grid of 13x12 places: expected 2 to 144"),
        ({"a": noise(), "b": noise()}, {"place": (4, 0)}, r"place \(4, 0\) and 1 waves on a grid"),
        ({"a": noise(), "b": noise()}, {"keep": 4}, "4 waves on a grid of 4x6: .* 1 to 3 waves"),
        ({"a": noise(), "b": 0 * noise()}, {}, "a place has a vector of zeros"),
    ],
)
def test_bad_input_gets_one_sentence(tables, change, words):
    with pytest.raises(ValueError, match=words):
        place_waves(tables, **change)
