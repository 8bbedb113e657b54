"""Two ladders of blocks: the page shows what was measured, at every depth."""

import math
from functools import cache

import numpy as np
import pytest
from reading import parts, press, reached, said, state
from reading import pick as choose

from vitbook.figures import layer_gradients
from vitbook.figures.layer_gradients import told
from vitbook.figures.parts.axes import round_ticks

DEPTHS = [1, 2, 3, 4, 6, 8, 12, 16, 24]
NAMES = ["Xavier", "<normal> 0.02", "larger"]


def pulls(depths=DEPTHS):
    """Three seeds of both norms and three initialisations, of known laws.

    In Pre-LN the last block falls as one over the root of the depth, and the first one stays. In
    Post-LN the last block stays, and the first one falls as one over the depth.
    """
    sizes = dict(zip(NAMES, ((4, 2), (0.2, 0.01), (9, 8)), strict=True))
    return {
        (norm, name): [
            {
                depth: [
                    factor * pre / block**0.5 if norm == "pre" else factor * post * block / depth
                    for block in range(1, depth + 1)
                ]
                for depth in depths
            }
            for factor in (0.5, 1, 1.5)
        ]
        for name, (pre, post) in sizes.items()
        for norm in ("pre", "post")
    }  # fmt: skip


@cache
def sample():
    return layer_gradients(pulls(), measured="gradient of <W>")


DATA = sample().data


def climb(page, key, times=1):
    press(page, "depth", *[key] * times)


def rungs(page, norm):
    """Width, height and opacity of the bars of one ladder, from the input on."""
    return page.locator(f".vb-live .vb-norm{norm}").evaluate_all(
        "all => all.map((e) => ['width', 'height', 'fill-opacity'].map((a) => +e.getAttribute(a)))"
    )


def test_mean_smallest_and_largest_by_hand():
    pre, post = DATA["gradients"][0]
    assert [len(each["mean"]) for each in pre] == DEPTHS
    assert pre[3] == {
        "mean": [4, 2.83, 2.31, 2], "low": [2, 1.41, 1.15, 1], "high": [6, 4.24, 3.46, 3],
        "told": "2.00",
    }  # fmt: skip
    assert post[3]["mean"] == [0.5, 1, 1.5, 2] and post[3]["low"] == [0.25, 0.5, 0.75, 1]
    assert [each["mean"][-1] for each in pre] == [float(f"{4 / d**0.5:.3g}") for d in DEPTHS]
    assert DATA["goals"] == [4, 4, 4]


def test_the_axis_holds_all_initialisations_and_marks():
    low, high = (10**end for end in DATA["axis"])
    all_of = [
        v for seeds in pulls().values() for seed in seeds for row in seed.values() for v in row
    ]
    halves = [
        spans[0]["mean"][-1] / 2 for norms in DATA["gradients"] for spans in norms
    ]  # fmt: skip
    assert low < min(*all_of, *halves) and max(*all_of, *halves) < high
    assert [words for _, words in DATA["ticks"]] == ["0.001", "0.1", "10"]


@pytest.mark.parametrize(
    ("ends", "ticks"),
    [((0.9, 1.1), [1]), ((0.3, 3), [0.5, 1, 2]), ((0.08, 6), [0.1, 0.3, 1, 3]),
     ((0.004, 20), [0.01, 0.1, 1, 10]), ((1e-5, 30), [1e-4, 1e-2, 1])],
)  # fmt: skip
def test_ticks_are_round_and_few(ends, ticks):
    assert round_ticks(*ends, at_most=4) == ticks


@pytest.mark.parametrize(
    ("gradient", "words"),
    [(0.00583, "0.00583"), (2, "2.00"), (12.3, "12.3"), (125, "125"), (1250, "1.25e+03"),
     (5e-6, "5.00e-06")],
)  # fmt: skip
def test_three_digits_of_a_gradient(gradient, words):
    assert told(gradient) == words


def test_it_starts_as_its_caption_says(page):
    assert state(page) == "depth=12 initialisation=0" and not reached(page)
    assert said(page) == (
        "Depth 12, Xavier. Gradient of the last block: Pre-LN 1.15, which is 0.29 of 4.00 at depth "
        "1; Post-LN 2.00, which is 1.00 of 2.00 at depth 1. A gradient that falls as 1/√depth "
        "would have a share of 0.29."
    )
    assert sample().description == (
        "At the start: depth 12, Xavier. In Pre-LN the last block's gradient is 1.15: 0.29 of that "
        "at depth 1. In Post-LN it is 2.00: 1.00 of that at depth 1.\nA bar is a block, the mean "
        "of 3 seeds; its line goes from the smallest seed to the largest. The curve of small dots "
        "joins the last blocks of all depths."
    )
    texts = page.locator("svg.vb-ladder text").all_text_contents()
    assert "gradient of <W>, logarithmic" in texts


@pytest.mark.parametrize("number", range(3))
def test_every_depth_shows_its_blocks_on_one_axis(page, number):
    layout, (low, high) = DATA["layouts"][0], DATA["axis"]
    widest = layout["panels"][0][1] - layout["panels"][0][0]
    choose(page, "initialisation", number)
    climb(page, "ArrowDown", len(DEPTHS))
    for depth in DEPTHS:
        assert state(page) == f"depth={depth} initialisation={number}"
        assert page.locator(".vb-handle text").inner_html() == str(depth)
        for i, norm in enumerate(("pre", "post")):
            means = np.mean([seed[depth] for seed in pulls()[norm, NAMES[number]]], axis=0)
            bars = rungs(page, i)
            assert [bar[2] for bar in bars] == [0.4] * (depth - 1) + [1]
            expected = widest * (np.log10(means) - low) / (high - low)
            assert [bar[0] for bar in bars] == pytest.approx(list(expected), abs=0.5)
        assert reached(page) == (depth == 4)
        page.keyboard.press("ArrowUp")
    assert parts(page)["depth"] == "24", "it ends there"


def test_the_task_is_reached_at_half_and_says_what_became_of_the_rival(page):
    asked = "smallest depth at which the last block of Pre-LN has at most half of its gradient at "
    assert asked + "depth 1." in page.locator(".vb-task").inner_text()
    climb(page, "ArrowLeft", 3)
    assert state(page) == "depth=4 initialisation=0" and reached(page)
    assert said(page).endswith(
        "✓ Reached: at depth 4 Pre-LN's last block has 0.50 of the gradient at depth 1, and "
        "Post-LN's has 1.00 of its own."
    )


# px of the box of words that hold no letters: above and below a line, and around it.
ROOM, HALO = 8, 2


def test_the_drawing_changes_with_the_room_and_no_words_cover_each_other(page):
    choose(page, "initialisation", 1)
    for width, steps in ((900, 0), (900, 9), (390, 0), (390, 9)):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_selector(f"svg.vb-ladder[viewBox^='0 0 {680 if width > 560 else 350} ']")
        climb(page, "ArrowDown" if parts(page)["depth"] == "24" else "ArrowUp", steps)
        inside = page.locator("svg.vb-ladder").bounding_box()
        boxes = [each.bounding_box() for each in page.locator("svg.vb-ladder text").all()]
        for i, a in enumerate(boxes):
            assert a["x"] >= inside["x"] - HALO
            assert a["x"] + a["width"] <= inside["x"] + inside["width"] + HALO
            for b in boxes[:i]:
                pairs = [(a, b), (b, a)]
                beside = any(one["x"] + one["width"] <= other["x"] + 1 for one, other in pairs)
                above = any(one["y"] + one["height"] <= other["y"] + ROOM for one, other in pairs)
                assert beside or above, (a, b)
    assert page.evaluate("document.activeElement.dataset.control") == "depth", "the focus stays"


def test_the_places_of_the_page_are_those_of_the_logarithm(js):
    assert js("layer_gradients", "along(0.1, [-2, 2])") == pytest.approx(0.25)
    assert js("layer_gradients", "closest(depths, to)", depths=DEPTHS, to=9.9) == 5
    assert js("layer_gradients", "closest(depths, to)", depths=DEPTHS, to=-4) == 0


def test_one_initialisation_needs_no_choice_and_one_seed_no_lines(show):
    figure = layer_gradients(
        {key: each[1:2] for key, each in pulls().items() if key[1] == "Xavier"}
    )
    page = show(figure)
    assert page.locator("[data-control=initialisation]").count() == 0
    assert page.locator(".vb-seeds-span").count() == 0
    assert "A bar is a block, of one seed." in figure.description


def test_a_norm_that_never_falls_to_half_leaves_no_task():
    data = layer_gradients(pulls((1, 2, 3))).data
    assert data["goals"] == [None] * 3 and data["task"] == ""


def test_the_start_is_never_the_end_of_the_task():
    data = layer_gradients(pulls((3, 8, 12, 24))).data
    assert data["goals"][0] == 12 and data["start"]["depth"] == 8


@pytest.mark.parametrize("row", [[1, 2, 3], [[1, 2]], [1, math.nan], [1, 0], [-1, 2]])
def test_gradients_that_have_no_rung_are_refused(row):
    wrong = pulls()
    wrong["post", "Xavier"][1][2] = row
    with pytest.raises(ValueError, match="at depth 2: expected 2 numbers over 0|same shape"):
        layer_gradients(wrong)
