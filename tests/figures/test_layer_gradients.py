"""Two ladders of blocks: the page shows what was measured, at every depth."""

import copy
import math

import numpy as np
import pytest
import torch

from vitbook.analysis import gradients_by_depth
from vitbook.errors import UnknownNameError
from vitbook.figures import layer_gradients
from vitbook.figures.layer_gradients import told
from vitbook.figures.parts.axes import round_ticks

DEPTHS = [1, 2, 3, 4, 6, 8, 12, 16, 24]
NAMES = ["Xavier", "<normal> 0.02", "larger"]
FIGURE = ".vitbook-figure"


def state(page, nth=0):
    return page.locator(FIGURE).nth(nth).get_attribute("data-state")


def reached(page):
    return page.locator(FIGURE).get_attribute("data-reached") == "true"


def said(page):
    return page.locator(".vb-readout").inner_text()


def choose(page, name):
    page.locator("[data-control=initialisation] button").nth(NAMES.index(name)).click()


def press(page, key, times=1):
    page.locator("[data-control=depth]").focus()
    for _ in range(times):
        page.keyboard.press(key)


def knob(page):
    box = page.locator("[data-control=depth]").bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def rungs(page, norm):
    """Width, height and opacity of the bars of one ladder, from the input on."""
    return page.locator(f".vb-live .vb-norm{norm}").evaluate_all(
        "all => all.map((e) => ['width', 'height', 'fill-opacity'].map((a) => +e.getAttribute(a)))"
    )


def test_mean_smallest_and_largest_by_hand(ladder):
    pre, post = ladder.data["gradients"][0]
    assert [len(each["mean"]) for each in pre] == DEPTHS
    assert pre[3] == {
        "mean": [4, 2.83, 2.31, 2], "low": [2, 1.41, 1.15, 1], "high": [6, 4.24, 3.46, 3],
        "told": "2.00",
    }  # fmt: skip
    assert post[3]["mean"] == [0.5, 1, 1.5, 2] and post[3]["low"] == [0.25, 0.5, 0.75, 1]
    assert [each["mean"][-1] for each in pre] == [float(f"{4 / d**0.5:.3g}") for d in DEPTHS]
    assert ladder.data["goals"] == [4, 4, 4]


def test_the_axis_holds_all_initialisations_and_marks(ladder, pulls):
    low, high = (10**end for end in ladder.data["axis"])
    all_of = [v for seeds in pulls.values() for seed in seeds for row in seed.values() for v in row]
    halves = [
        spans[0]["mean"][-1] / 2 for norms in ladder.data["gradients"] for spans in norms
    ]  # fmt: skip
    assert low < min(*all_of, *halves) and max(*all_of, *halves) < high
    assert [words for _, words in ladder.data["ticks"]] == ["0.001", "0.1", "10"]


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


def test_it_starts_as_its_caption_says(show, ladder):
    page = show(ladder)
    assert state(page) == "depth=12 initialisation=0" and not reached(page)
    assert said(page) == (
        "Depth 12, Xavier. Gradient of the last block: Pre-LN 1.15, which is 0.29 of 4.00 at depth "
        "1; Post-LN 2.00, which is 1.00 of 2.00 at depth 1. A gradient that falls as 1/√depth "
        "would have a share of 0.29."
    )
    assert ladder.description == (
        "At the start: depth 12, Xavier. In Pre-LN the last block's gradient is 1.15: 0.29 of that "
        "at depth 1. In Post-LN it is 2.00: 1.00 of that at depth 1.\nA bar is a block, the mean "
        "of 3 seeds; its line goes from the smallest seed to the largest. The curve of small dots "
        "joins the last blocks of all depths. An upright curve in Pre-LN would refute the title."
    )
    texts = page.locator("svg.vb-ladder text").all_text_contents()
    assert "gradient of <W>, logarithmic" in texts


@pytest.mark.parametrize("width", [900, 390])
def test_every_depth_shows_its_blocks_on_one_axis(show, ladder, pulls, width):
    page = show(ladder, width=width)
    layout = ladder.data["layouts"][width < 560]
    low, high = ladder.data["axis"]
    widest = layout["panels"][0][1] - layout["panels"][0][0]
    for number, name in enumerate(NAMES):
        choose(page, name)
        press(page, "ArrowDown", len(DEPTHS))
        for depth in DEPTHS:
            assert state(page) == f"depth={depth} initialisation={number}"
            assert page.locator(".vb-handle text").inner_html() == str(depth)
            for i, norm in enumerate(("pre", "post")):
                means = np.mean([seed[depth] for seed in pulls[norm, name]], axis=0)
                bars = rungs(page, i)
                assert [bar[2] for bar in bars] == [0.4] * (depth - 1) + [1]
                expected = widest * (np.log10(means) - low) / (high - low)
                assert [bar[0] for bar in bars] == pytest.approx(list(expected), abs=0.5)
            assert reached(page) == (depth == 4)
            page.keyboard.press("ArrowUp")
        assert state(page) == f"depth=24 initialisation={number}", "it ends there"


def test_the_top_rung_ends_on_the_curve(show, ladder):
    page = show(ladder)
    for key in ("ArrowUp", "ArrowDown", "ArrowDown", "ArrowDown"):
        press(page, key)
        at = DEPTHS.index(int(state(page).split()[0].removeprefix("depth=")))
        for norm in range(2):
            bar = page.locator(f".vb-live .vb-norm{norm}").last.bounding_box()
            dot = page.locator(".vb-live .vb-top-dot").nth(norm * len(DEPTHS) + at).bounding_box()
            assert dot["x"] + dot["width"] / 2 == pytest.approx(bar["x"] + bar["width"], abs=1)
            assert dot["y"] + dot["height"] / 2 == pytest.approx(
                bar["y"] + bar["height"] / 2, abs=1
            )


def test_the_task_is_reached_at_half_and_says_what_became_of_the_rival(show, ladder):
    page = show(ladder)
    assert "smallest depth at which the last block of Pre-LN has at most half of its gradient at " \
        "depth 1." in page.locator(".vb-task").inner_text()  # fmt: skip
    press(page, "ArrowLeft", 3)
    assert state(page) == "depth=4 initialisation=0" and reached(page)
    assert said(page).endswith(
        "✓ Reached: at depth 4 Pre-LN's last block has 0.50 of the gradient at depth 1, and "
        "Post-LN's has 1.00 of its own."
    )
    page.click("[data-control=reset]")
    assert state(page) == "depth=12 initialisation=0" and not reached(page)


@pytest.mark.parametrize("width", [900, 390])
def test_the_knob_follows_the_mouse(show, ladder, width):
    page = show(ladder, width=width)
    layout = ladder.data["layouts"][width < 560]
    box = page.locator("svg.vb-ladder").bounding_box()
    unit = box["width"] / layout["size"][0]
    x, _ = knob(page)
    page.mouse.move(*knob(page))
    page.mouse.down()
    for depth in (16, 24, 6, 1):
        y = box["y"] + unit * (layout["bottom"] - depth * layout["pitch"])
        page.mouse.move(x, y)
        assert state(page) == f"depth={depth} initialisation=0"
        assert knob(page) == pytest.approx((x, y), abs=1)
    page.mouse.move(x, box["y"] - 500)
    assert state(page).startswith("depth=24"), "beyond the drawing it stays at the end"
    page.mouse.up()
    page.mouse.move(x, box["y"] + 300)
    assert state(page).startswith("depth=24"), "and a mouse without its button moves nothing"


def test_a_finger_drags_the_knob_and_scrolls_beside_it(touched, ladder):
    page, finger = touched(ladder)
    x, y = knob(page)
    finger((x, y), (x, y - 20), (x, y - 90))
    moved = state(page)
    assert moved in ("depth=16 initialisation=0", "depth=24 initialisation=0")
    assert page.evaluate("scrollY") == 0
    box = page.locator("svg.vb-ladder").bounding_box()
    finger((80, box["y"] + 300), (80, box["y"] + 250), (80, box["y"] + 150))
    assert page.evaluate("scrollY") > 0 and state(page) == moved


def test_a_screen_reader_hears_the_depth(show, ladder):
    page = show(ladder)
    handle = page.locator("[data-control=depth]")
    assert handle.get_attribute("role") == "slider"
    assert handle.get_attribute("aria-valuetext") == "12 blocks"
    press(page, "ArrowDown", 20)
    assert handle.get_attribute("aria-valuetext") == "1 block"
    limits = [handle.get_attribute(f"aria-value{each}") for each in ("min", "now", "max")]
    assert limits == ["1", "1", "24"]


def test_the_drawing_changes_with_the_room(show, ladder):
    page = show(ladder, width=900)
    press(page, "ArrowUp")
    before = state(page)
    page.set_viewport_size({"width": 390, "height": 900})
    page.wait_for_function(
        "document.querySelector('svg.vb-ladder').getAttribute('viewBox')[4] === '3'"
    )
    assert state(page) == before
    assert page.evaluate("document.activeElement.dataset.control") == "depth", "the focus stays"


# px of the box of words that hold no letters: above and below a line, and around it.
ROOM, HALO = 8, 2


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [900, 390])
def test_no_words_cover_each_other_or_leave_the_drawing(show, ladder, width, theme):
    page = show(ladder, width=width, theme=theme)
    choose(page, NAMES[1])
    for steps in (0, 9, 9):
        press(
            page, "ArrowDown" if steps and state(page).startswith("depth=24") else "ArrowUp", steps
        )
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


def test_a_link_restores_what_was_chosen(show, ladder, come_back_by_link):
    page = show(ladder)
    choose(page, "larger")
    press(page, "ArrowUp", 2)
    assert state(page) == "depth=24 initialisation=2"
    come_back_by_link(page, "#gradients?depth=24&initialisation=2")


def test_two_on_a_page_have_links_of_their_own(show, ladder, rounds):
    page = show(ladder, rounds, ladder)
    links = [link.get_attribute("href").split("?")[0] for link in page.locator(".vb-link").all()]
    assert links == ["#gradients", "#rounding", "#gradients2"]
    page.evaluate("location.hash = '#gradients2?depth=3'")
    page.wait_for_function(
        f"document.querySelectorAll('{FIGURE}')[2].dataset.state.startsWith('depth=3')"
    )
    assert state(page).startswith("depth=12")


def test_a_link_gives_only_what_was_measured(js):
    data = {"depths": DEPTHS, "names": NAMES}
    for text, expected in [
        ("depth=8&initialisation=1", {"depth": 8, "initialisation": 1}),
        ("depth=5&initialisation=3", {}), ("depth=24.5&x=1&toString=2", {}),
        ("depth=1", {"depth": 1}),
    ]:  # fmt: skip
        assert js("layer_gradients", "measuredState(text, data)", text=text, data=data) == expected


def test_the_places_of_the_page_are_those_of_the_logarithm(js):
    assert js("layer_gradients", "along(0.1, [-2, 2])") == pytest.approx(0.25)
    assert js("layer_gradients", "closest(depths, to)", depths=DEPTHS, to=9.9) == 5
    assert js("layer_gradients", "closest(depths, to)", depths=DEPTHS, to=-4) == 0


def test_one_initialisation_needs_no_choice_and_one_seed_no_lines(show, pulls):
    one = {key: seeds[1:2] for key, seeds in pulls.items() if key[1] == "Xavier"}
    figure = layer_gradients(one)
    page = show(figure)
    assert page.locator("[data-control=initialisation]").count() == 0
    assert page.locator(".vb-seeds-span").count() == 0
    assert "A bar is a block, of one seed." in figure.description


def test_a_norm_that_never_falls_to_half_leaves_no_task(pulls):
    shallow = {
        key: [{depth: seed[depth] for depth in (1, 2, 3)} for seed in seeds]
        for key, seeds in pulls.items()
    }
    figure = layer_gradients(shallow)
    assert figure.data["goals"] == [None] * 3 and figure.data["task"] == ""
    assert layer_gradients(shallow, task="Look.").data["task"] == "Look."


def test_the_start_is_the_callers(pulls):
    figure = layer_gradients(pulls, depth=6, initialisation="larger")
    assert figure.data["start"] == {"depth": 6, "initialisation": 2}
    assert figure.description.startswith("At the start: depth 6, larger.")
    with pytest.raises(ValueError, match="at depth 4 the task is reached before it begins"):
        layer_gradients(pulls, depth=4)
    with pytest.raises(
        ValueError, match="depth 5 at the start was not measured: expected one of 1"
    ):
        layer_gradients(pulls, depth=5)
    with pytest.raises(UnknownNameError, match="unknown initialisation 'Xaver': did you mean Xavi"):
        layer_gradients(pulls, initialisation="Xaver")


def test_the_default_start_is_never_the_end_of_the_task(pulls):
    deep = {
        key: [{depth: seed[depth] for depth in (3, 8, 12, 24)} for seed in seeds]
        for key, seeds in pulls.items()
    }
    data = layer_gradients(deep).data
    assert data["goals"][0] == 12 and data["start"]["depth"] == 8


def test_what_the_probe_gives_is_drawn(show, model):
    images, labels = torch.rand(5, 1, 8, 8), torch.arange(5)
    found = gradients_by_depth(model, images, labels, (1, 2, 4), part="mlp.contract.weight")
    figure = layer_gradients({("pre", "large"): [found], ("post", "large"): [found]}, depth=None)
    page = show(figure)
    press(page, "ArrowUp", 5)
    axis = figure.data["axis"]
    widths = [bar[0] for bar in rungs(page, 0)]
    drawn = [float(f"{each:.3g}") for each in found[4]]  # as the page gets them
    places = [(math.log10(each) - axis[0]) / (axis[1] - axis[0]) * 288 for each in drawn]
    assert widths == pytest.approx(places, abs=0.5)


def test_tensors_and_numpys_numbers_are_numbers(pulls):
    def given(kind):
        return {
            key: [{np.int64(d): kind(row) for d, row in seed.items()} for seed in seeds]
            for key, seeds in pulls.items()
        }

    plain = layer_gradients(pulls).data
    assert layer_gradients(given(np.array)).data == plain
    (first, *_), (rival, *_) = layer_gradients(given(torch.tensor)).data["gradients"][0]
    assert first["mean"] == [4] and rival["high"] == [3]


def changed(pulls, key, seed, depth, row):
    """The same but for one row."""
    pulls = copy.deepcopy(pulls)
    pulls[key][seed][depth] = row
    return pulls


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ([1, 2, 3], "Post-LN, Xavier came with 3 gradients at depth 2: expected 2, one for each b"),
        ([], "Post-LN, Xavier came with 0 gradients at depth 2"),
        ([[1, 2]], "Post-LN, Xavier came with gradients of shape .1, 2. at depth 2: expected 2"),
        ([1, math.nan], "Post-LN, Xavier at depth 2 has gradients 1.0, nan: expected finite ones"),
        ([math.inf, 1], "Post-LN, Xavier at depth 2 has gradients inf, 1.0"),
        ([1, 0], "has gradients 1, 0: expected finite ones over 0, which have a place on a log"),
        ([-1, 2], "has gradients -1, 2: expected finite ones over 0"),
    ],
)
def test_gradients_that_have_no_rung(pulls, row, words):
    with pytest.raises(ValueError, match=words):
        layer_gradients(changed(pulls, ("post", "Xavier"), 1, 2, row))


@pytest.mark.parametrize("row", [["a", "b"], [None, 1], [True, False]])
def test_gradients_are_numbers(pulls, row):
    with pytest.raises(TypeError, match="Post-LN, Xavier at depth 2 came as .*: expected numbers"):
        layer_gradients(changed(pulls, ("post", "Xavier"), 1, 2, row))


@pytest.mark.parametrize(
    ("depths", "words"),
    [
        ((4, 2, 1), "depths came as 4, 2, 1: expected at least two whole numbers from 1 to 48 in"),
        ((3,), "depths came as 3: expected at least two"),
        ((), "depths came as none: expected at least two"),
        ((0, 1), "depths came as 0, 1: expected"),
        ((1, 2.0), "depths came as 1, 2.0: expected"),
        ((1, 64), "depths came as 1, 64: expected at least two whole numbers from 1 to 48"),
    ],
)
def test_depths_ascend(depths, words):
    rows = {depth: [1.0] * int(depth) for depth in depths}
    with pytest.raises(ValueError, match=words):
        layer_gradients({("pre", "a"): [rows], ("post", "a"): [rows]})


def test_what_does_not_stand_side_by_side(pulls):
    with pytest.raises(ValueError, match="no gradients came: expected those of"):
        layer_gradients({})
    with pytest.raises(UnknownNameError, match="unknown norm 'pots': did you mean post"):
        layer_gradients(pulls | {("pots", "Xavier"): pulls["post", "Xavier"]})
    with pytest.raises(ValueError, match="gradients of 'pre' came: expected pairs such as"):
        layer_gradients({"pre": []})
    lone = {key: seeds for key, seeds in pulls.items() if key != ("post", "larger")}
    with pytest.raises(ValueError, match="initialisation 'larger' has no 'post': expected both"):
        layer_gradients(lone)
    with pytest.raises(ValueError, match="2 seeds of Post-LN, larger: expected 3 as before"):
        layer_gradients(pulls | {("post", "larger"): pulls["post", "larger"][:2]})
    with pytest.raises(ValueError, match="0 seeds of Pre-LN, Xavier: expected at least one"):
        layer_gradients(pulls | {("pre", "Xavier"): []})
    other = [{depth: row for depth, row in seed.items() if depth != 6}
             for seed in pulls["pre", "larger"]]  # fmt: skip
    with pytest.raises(ValueError, match="Pre-LN, larger was measured at depths 1, 2, 3, 4, 8, 12"):
        layer_gradients(pulls | {("pre", "larger"): other})
