"""A budget buys the best model within it, on three axes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vitbook.figures import frontier
from vitbook.figures.parts.axes import best_within, stairs_of, told

NAMES = ["tiny <1>", "small", "deep", "wide", "large", "lost", "huge"]
COSTS = ("parameters", "macs", "time")


def state(page):
    return dict(
        p.split("=") for p in page.locator(".vitbook-figure").get_attribute("data-state").split()
    )


def reached(page):
    return page.locator(".vitbook-figure").get_attribute("data-reached") == "true"


def said(page):
    return page.locator(".vb-readout").inner_text().replace("\xa0", " ")


def best(page):
    return page.evaluate("document.querySelector('.vitbook-figure').best")


def choose(page, axis):
    page.locator("[data-control=axis] button").nth(axis).click()


def press(page, key, times=1):
    page.locator("[data-control=budget]").focus()
    for _ in range(times):
        page.keyboard.press(key)


def terms(page):
    return [each.replace("\xa0", " ") for each in page.locator(".vb-terms > div").all_inner_texts()]


def test_the_steps_by_hand(budgets):
    stairs = [[NAMES[i] for i in axis["stairs"]] for axis in budgets.data["axes"]]
    assert stairs[0] == stairs[1] == ["tiny <1>", "small", "deep", "wide", "large", "huge"]
    assert stairs[2] == ["tiny <1>", "small", "wide", "large", "huge"]
    better = {model["name"]: model["better"] for model in budgets.data["models"]}
    assert better["deep"] == [None, None, NAMES.index("wide")]
    assert better["lost"] == [NAMES.index("wide")] * 3
    assert all(better[name] == [None] * 3 for name in NAMES if name not in ("deep", "lost"))


@settings(deadline=None)  # a busy machine is no fault
@given(
    st.lists(
        st.tuples(st.integers(1, 20), st.integers(1, 20), st.integers(1, 20), st.integers(1, 9)),
        min_size=1, max_size=12,
    )
)  # fmt: skip
def test_a_budget_buys_what_a_search_finds(numbers):
    rows = [
        dict(name=str(i), family="f", parameters=a * 1e6, macs=b * 1e9, time=c, accuracy=d / 10)
        for i, (a, b, c, d) in enumerate(numbers)
    ]
    for axis, cost, unit in zip(
        frontier(rows, reference="x").data["axes"], COSTS, (1e6, 1e9, 1), strict=True
    ):
        for budget, bought, count in zip(
            axis["values"], axis["bought"], axis["counts"], strict=True
        ):
            within = [row for row in rows if row[cost] / unit <= budget]
            assert len(within) == count
            assert rows[bought]["accuracy"] == max(row["accuracy"] for row in within)
            assert rows[bought] in within
        # What no other beats, by the definition.
        free = {
            i for i, row in enumerate(rows)
            if not any(
                other[cost] <= row[cost] and other["accuracy"] >= row["accuracy"]
                and (other[cost], -other["accuracy"], j) < (row[cost], -row["accuracy"], i)
                for j, other in enumerate(rows)
            )
        }  # fmt: skip
        assert set(axis["stairs"]) == free == set(axis["bought"])


def test_of_equals_the_one_that_takes_least_and_then_the_first():
    rows = [dict(accuracy=0.8, macs=m) for m in (3, 2, 2)]
    assert best_within(rows, "macs", 5) == 1 and best_within(rows, "macs", 1) is None
    assert stairs_of(rows, "macs") == [1]


def test_only_an_interval_that_lies_lower_takes_less(costs):
    for time, slower in (((1.5, 1.1, 1.9), True), ((1.5, 0.9, 1.9), False)):
        costs[2]["time"] = time
        figure = frontier(costs, reference="wide", budget=1e9)
        better = figure.data["models"][2]["better"]
        assert better == [None, None, 3 if slower else None]
        assert ("1 is slower than a better one" in figure.description) == slower
        low, high = figure.data["axes"][2]["spans"][2]
        assert low < figure.data["axes"][2]["across"][2] < high


def test_seconds_are_told_in_milliseconds(costs):
    figure = frontier(costs, budget=1e9)
    assert figure.data["axes"][2]["unit"] == "ms"
    assert figure.data["models"][1]["costs"] == ["5.00\xa0M", "0.500\xa0G", "400\xa0ms"]


@pytest.mark.parametrize(
    ("cost", "words"),
    [(0.09996, "0.100 s"), (0.1234, "0.123 s"), (9.996, "10.0 s"), (12.34, "12.3 s"),
     (999.6, "1,000 s"), (12345.6, "12,346 s")],
)  # fmt: skip
def test_three_digits(cost, words):
    assert told(cost, "s") == words.replace(" ", "\xa0")


def test_what_is_read_is_what_is_compared(costs):
    """A budget of 0.501 G buys a model of 0.5004 G; one of 0.5 G would be told alike."""
    costs[1]["macs"] = 0.5004e9
    axis = frontier(costs, reference="wide", budget=1e9).data["axes"][1]
    at = axis["values"].index(0.501)
    assert axis["told"][at] == "0.501\xa0G" and axis["bought"][at] == 1
    assert axis["bought"][at - 1] == 0


def test_it_starts_as_its_caption_says(show, budgets):
    page = show(budgets)
    assert state(page)["axis"] == "1" and best(page) == "small" and not reached(page)
    assert said(page) == "Within 0.995 G multiply-adds the best of 2 models is small: 70.0 %."
    assert budgets.description.replace("\xa0", " ").replace("\n", " ") == (
        "At the start: within 0.995 G multiply-adds the best model is small, with 70.0 %; "
        "an image takes it 0.400 × the time of wide. Of the 6 models that are the best "
        "within some budget of multiply-adds, 1 is slower than a better one."
    )
    assert "tiny <1>" in page.locator(".vb-plot text").all_text_contents()


def test_every_budget_of_every_axis_says_what_it_buys(show, budgets, costs):
    page = show(budgets)
    for key, cost in enumerate(COSTS):
        axis = budgets.data["axes"][key]
        choose(page, key)
        press(page, "ArrowDown", len(axis["values"]))
        assert state(page) == {"axis": str(key), "budget": "0"}
        for i, (bought, count) in enumerate(zip(axis["bought"], axis["counts"], strict=True)):
            assert state(page)["budget"] == str(i)
            model = budgets.data["models"][bought]
            assert best(page) == model["name"]
            assert f"best of {count} model" in said(page) and model["name"] in said(page)
            lit = page.locator(".vb-plot .vb-dot[data-model][opacity='1']").count()
            assert lit == count
            assert [text.split("\n")[0] for text in terms(page)] == [
                each.replace("\xa0", " ") for each in model["costs"]
            ]
            assert reached(page) == (cost == "macs" and model["name"] == "deep")
            page.keyboard.press("ArrowUp")
        assert state(page)["budget"] == str(len(axis["values"]) - 1), "it ends there"


def test_the_task_is_reached_where_a_better_model_is_faster(show, budgets):
    page = show(budgets)
    assert "whose best model is slower than a better one" in page.locator(".vb-task").inner_text()
    while not reached(page):
        press(page, "ArrowRight")
    assert best(page) == "deep" and page.locator(".vb-rival").count() == 1
    assert (
        "✓ Reached: deep takes 1.50 × for an image; wide is better, 79.0 %, and takes 1.00 ×."
        in (said(page))
    )
    assert "Better at no more: wide, 79.0 %" in terms(page)[2]
    choose(page, 2)
    assert best(page) == "wide" and not reached(page), "the time that deep takes buys wide"
    page.click("[data-control=reset]")
    assert best(page) == "small"


def test_a_budget_of_another_cost_is_what_the_lit_model_takes(show, budgets):
    page = show(budgets)
    choose(page, 0)
    knob = page.locator("[data-control=budget]")
    assert knob.get_attribute("aria-valuetext") == "5.00\xa0M" and best(page) == "small"
    choose(page, 0)
    assert knob.get_attribute("aria-valuetext") == "5.00\xa0M", "the same axis changes nothing"
    choose(page, 2)
    assert knob.get_attribute("aria-valuetext") == "0.400\xa0×"


def test_no_model_that_is_slower_leaves_no_task(costs):
    costs[2]["time"] = 0.9
    figure = frontier(costs, reference="wide")
    assert figure.data["task"] == ""
    assert "No model that is the best within some budget is slower" in figure.description
    assert frontier(costs, task="Look.").data["task"] == "Look."


@pytest.mark.parametrize("width", [900, 390])
def test_the_budget_follows_the_mouse(show, budgets, width):
    page = show(budgets, width=width)
    axis, layout = budgets.data["axes"][1], budgets.data["layouts"][width < 560]
    box = page.locator(".vb-plot").bounding_box()
    left, _, right, _ = layout["box"]
    unit = box["width"] / layout["size"][0]

    def at(across):
        return box["x"] + unit * (left + across * (right - left))

    y = box["y"] + 0.6 * box["height"]
    page.mouse.move(at(axis["places"][int(state(page)["budget"])]), y)
    page.mouse.down()
    for step in (3, 20, 50):
        page.mouse.move(at(axis["places"][step]), y)
        assert state(page)["budget"] == str(step)
    page.mouse.move(box["x"] + 3 * box["width"], y)
    assert state(page)["budget"] == str(len(axis["places"]) - 1)
    page.mouse.up()


def test_a_dot_that_is_pointed_at_is_told(show, budgets):
    page = show(budgets)
    note = page.locator(".vb-plot + .vb-note")
    assert note.inner_text().startswith("Steps: no other model is better")
    dot = page.locator(".vb-plot [data-model='5']").bounding_box()
    page.mouse.move(dot["x"] + dot["width"] / 2, dot["y"] + dot["height"] / 2)
    assert note.inner_text().replace("\xa0", " ") == "lost: 65.0 %, 60.0 M, 8.00 G, 2.00 ×"
    page.mouse.move(0, 0)


def test_a_finger_drags_the_knob_and_scrolls_beside_it(touched, budgets):
    page, finger = touched(budgets)
    knob = page.locator("[data-control=budget]").bounding_box()
    x, y = knob["x"] + knob["width"] / 2, knob["y"] + knob["height"] / 2
    start = int(state(page)["budget"])
    finger((x, y), (x + 20, y), (x + 80, y))
    moved = state(page)
    assert int(moved["budget"]) > start and page.evaluate("scrollY") == 0
    box = page.locator(".vb-plot").bounding_box()
    finger((60, box["y"] + 300), (60, box["y"] + 250), (60, box["y"] + 150))
    assert page.evaluate("scrollY") > 0 and state(page) == moved


def test_the_drawing_changes_with_the_room(show, budgets):
    page = show(budgets, width=900)
    drawing = page.locator(".vb-plot")
    assert drawing.get_attribute("viewBox") == "0 0 680 430"
    press(page, "ArrowRight", 5)
    before = state(page)
    page.set_viewport_size({"width": 390, "height": 900})
    page.wait_for_function("document.querySelector('.vb-plot').getAttribute('viewBox')[4] === '3'")
    assert state(page) == before
    assert page.evaluate("document.activeElement.dataset.control") == "budget", "the focus stays"


def test_the_nearest_place(js):
    assert js("frontier", "nearest(places, 0.31)", places=[0.1, 0.3, 0.33, 0.9]) == 1
    assert js("frontier", "nearest(places, -4)", places=[0.1, 0.3]) == 0


def test_steps_by_hand(js):
    assert js("frontier", "steps([[1, 5], [2, 3]], 9)") == "1,5 2,5 2,3 9,3"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (dict(accuracy=81.5), "accuracy of one came as 81.5, expected a share from 0 to 1: divide"),
        (dict(accuracy=float("nan")), "accuracy of one came as nan, expected a finite one over 0"),
        (dict(macs=float("inf")), "macs of one came as inf, expected a finite one over 0"),
        (dict(parameters=-3), "parameters of one came as -3, expected a finite one over 0"),
        (dict(time=0), "time of one came as 0, expected a finite one"),
        (dict(time=(2, 3, 4)), r"came as \(2, 3, 4\), expected a number or \(middle, low, high\)"),
        (dict(time=(2, 1)), r"time of one came as \(2, 1\), expected a number or"),
        (dict(name="two"), "two stands there 2 times: name each model once"),
    ],
)  # fmt: skip
def test_bad_input_gets_one_sentence(changed, words):
    row = dict(name="one", family="f", accuracy=0.7, parameters=1e6, macs=1e9, time=1)
    with pytest.raises(ValueError, match=words):
        frontier([row | changed, row | {"name": "two"}])


@pytest.mark.parametrize("value", ["many", None, True, (1, "a", 2)])
def test_a_cost_is_a_number(costs, value):
    costs[0]["time"] = value
    with pytest.raises(TypeError, match="time of tiny <1> came as .*, expected a number"):
        frontier(costs)


def test_numbers_of_numpy_and_other_sequences_are_numbers(costs):
    plain = frontier(costs, budget=1e9).data
    for row in costs:
        row |= {"macs": np.int64(row["macs"]), "accuracy": np.float64(row["accuracy"])}
        row["time"] = [row["time"]] * 3
    assert frontier(costs, budget=1e9).data == plain


def test_rows_that_no_page_can_draw(costs):
    with pytest.raises(ValueError, match="0 models came, expected 1 to 60"):
        frontier([])
    with pytest.raises(ValueError, match="70 models came"):
        frontier([costs[0] | {"name": str(i)} for i in range(70)])
    with pytest.raises(ValueError, match="row 1 has no family and no time: give all of them"):
        frontier([costs[0], {k: v for k, v in costs[1].items() if k not in ("family", "time")}])
    rows = [row | {"family": row["name"]} for row in costs]
    with pytest.raises(ValueError, match="7 families came, expected at most 6, whose colours"):
        frontier(rows)


def test_a_budget_is_one_that_a_model_meets_and_no_end_of_the_task(costs):
    for budget in (0, -1e9, float("nan"), 0.09e9):
        with pytest.raises(ValueError, match=r"the smallest model takes 0\.1 G: expected that or"):
            frontier(costs, budget=budget)
    with pytest.raises(ValueError, match="the task is reached before it begins: expected another"):
        frontier(costs, budget=2.1e9)
    assert frontier(costs, budget=1e15).data["axes"][1]["bought"][-1] == NAMES.index("huge")


def test_one_model_alone(show, costs):
    figure = frontier(costs[:1], reference="tiny")
    page = show(figure)
    assert best(page) == "tiny <1>" and "best of 1 model is" in said(page)
