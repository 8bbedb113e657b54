"""A budget buys the best model within it, on three axes."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import computed, parts, pick, press, reached, said

from vitbook.figures import frontier
from vitbook.figures.frontier import labels
from vitbook.figures.frontier.labels import SIDES, flow, place_labels, width_of
from vitbook.figures.parts.axes import told

NAMES = ["tiny <1>", "small", "deep", "wide", "large", "lost", "huge"]
COSTS = ("parameters", "macs", "time")


def costs():
    """Seven models. "deep" has fewer multiply-adds than "wide", is slower, and is worse."""
    rows = (
        ("tiny <1>", "conv", 0.60, 1.5e6, 0.1e9, 1e-4), ("small", "conv", 0.70, 5e6, 0.5e9, 4e-4),
        ("deep", "ViT", 0.76, 12e6, 2.0e9, 1.5e-3), ("wide", "ViT", 0.79, 30e6, 3.0e9, 1.0e-3),
        ("large", "ViT", 0.82, 90e6, 9e9, 3.1e-3), ("lost", "conv", 0.65, 60e6, 8e9, 2.0e-3),
        ("huge", "ViT", 0.821, 300e6, 40e9, 12e-3),
    )  # fmt: skip
    keys = ("name", "family", "accuracy", "parameters", "macs", "time")
    return [dict(zip(keys, row, strict=True)) for row in rows]


@cache
def sample():
    return frontier(costs())


DATA = sample().data


def best(page):
    return computed(page, "best")


def walk(page, key, times=1):
    press(page, "budget", *[key] * times)


def lines(page):
    return [each.replace("\xa0", " ") for each in page.locator(".vb-terms > div").all_inner_texts()]


@settings(deadline=None)  # a busy machine is no fault
@given(
    st.lists(
        st.tuples(st.integers(1, 20), st.integers(1, 20), st.integers(1, 20), st.integers(1, 9)),
        min_size=1, max_size=12,
    )
)  # fmt: skip
def test_a_budget_buys_what_a_search_finds(numbers):
    rows = [
        dict(
            name=str(i), family="f", parameters=a * 1e6, macs=b * 1e9, time=c / 1e3, accuracy=d / 10
        )
        for i, (a, b, c, d) in enumerate(numbers)
    ]
    for axis, cost, unit in zip(frontier(rows).data["axes"], COSTS, (1e6, 1e9, 1e-3), strict=True):
        for budget, bought, count in zip(
            axis["values"], axis["bought"], axis["counts"], strict=True
        ):
            within = [row for row in rows if round(row[cost] / unit, 6) <= budget]
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


def test_only_an_interval_that_lies_lower_takes_less():
    for time, slower in (((1.5e-3, 1.1e-3, 1.9e-3), True), ((1.5e-3, 0.9e-3, 1.9e-3), False)):
        rows = costs()
        rows[2]["time"] = time
        figure = frontier(rows)
        better = figure.data["models"][2]["better"]
        assert better == [None, None, 3 if slower else None]
        assert ("1 is slower than a better one" in figure.description) == slower
        assert (figure.data["task"] == "") != slower
        low, high = figure.data["axes"][2]["spans"][2]
        assert low < figure.data["axes"][2]["across"][2] < high


def test_seconds_are_told_in_milliseconds():
    figure = frontier(costs())
    assert figure.data["axes"][2]["unit"] == "ms"
    assert figure.data["models"][1]["costs"] == ["5.00\xa0M", "0.500\xa0G", "0.400\xa0ms"]


@pytest.mark.parametrize(
    ("cost", "words"),
    [(0.09996, "0.100 s"), (0.1234, "0.123 s"), (9.996, "10.0 s"), (12.34, "12.3 s"),
     (999.6, "1,000 s"), (12345.6, "12,346 s")],
)  # fmt: skip
def test_three_digits(cost, words):
    assert told(cost, "s") == words.replace(" ", "\xa0")


def test_what_is_read_is_what_is_compared():
    """A budget of 0.501 G buys a model of 0.5004 G; one of 0.5 G would be told alike."""
    rows = costs()
    rows[1]["macs"] = 0.5004e9
    axis = frontier(rows).data["axes"][1]
    at = axis["values"].index(0.501)
    assert axis["told"][at] == "0.501\xa0G" and axis["bought"][at] == 1
    assert axis["bought"][at - 1] == 0


def test_it_starts_as_its_caption_says(page):
    at = int(parts(page)["budget"])
    assert parts(page)["axis"] == "1" and not reached(page)
    words = DATA["axes"][1]["told"][at].replace("\xa0", " ")
    assert said(page).startswith(f"Within {words} multiply-adds the best of ")
    told = sample().description.replace("\xa0", " ")
    assert told.startswith(f"At the start: within {words} multiply-adds the best model is "
                           f"{best(page)}, with ")  # fmt: skip
    assert told.endswith("Of the 6 models that are the best within some budget of multiply-adds, "
                         "1 is slower than a better one.")  # fmt: skip
    assert "tiny <1>" in page.locator(".vb-plot text").all_text_contents()


@pytest.mark.parametrize("key", range(3))
def test_every_budget_says_what_it_buys(page, key):
    axis, cost = DATA["axes"][key], COSTS[key]
    pick(page, "axis", key)
    walk(page, "ArrowDown", len(axis["values"]))
    assert parts(page) == {"axis": str(key), "budget": "0"}
    for i, (bought, count) in enumerate(zip(axis["bought"], axis["counts"], strict=True)):
        assert parts(page)["budget"] == str(i)
        model = DATA["models"][bought]
        assert best(page) == model["name"]
        assert f"best of {count} model" in said(page) and model["name"] in said(page)
        assert page.locator(".vb-plot .vb-dot[data-model][opacity='1']").count() == count
        assert reached(page) == (cost == "macs" and model["name"] == "deep")
        page.keyboard.press("ArrowUp")
    assert parts(page)["budget"] == str(len(axis["values"]) - 1), "it ends there"
    assert [text.split("\n")[0] for text in lines(page)] == [
        each.replace("\xa0", " ") for each in model["costs"]
    ]


def test_the_task_is_reached_where_a_better_model_is_faster(page):
    assert "whose best model is slower than a better one" in page.locator(".vb-task").inner_text()
    walk(page, "ArrowDown", 70)
    while not reached(page):
        walk(page, "ArrowRight")
    assert best(page) == "deep" and page.locator(".vb-rival").count() == 1
    told = "✓ Reached: deep takes 1.50 ms for an image; wide is better, 79.0 %, and takes 1.00 ms."
    assert told in said(page) and "Better at no more: wide, 79.0 %" in lines(page)[2]
    pick(page, "axis", 2)
    assert best(page) == "wide" and not reached(page), "the time that deep takes buys wide"


def test_a_budget_of_another_cost_is_what_the_lit_model_takes(page):
    model = DATA["models"][NAMES.index(best(page))]
    knob = page.locator("[data-control=budget]")
    for axis in (0, 0, 2):  # the same axis changes nothing
        pick(page, "axis", axis)
        assert knob.get_attribute("aria-valuetext") == model["costs"][axis]


def test_a_dot_that_is_pointed_at_is_told(page):
    note = page.locator(".vb-plot + .vb-note")
    assert note.inner_text().startswith("Steps: no other model is better")
    page.locator(".vb-plot [data-model='5']").hover()
    assert note.inner_text().replace("\xa0", " ") == "lost: 65.0 %, 60.0 M, 8.00 G, 2.00 ms"


def test_the_nearest_place_and_steps_by_hand(js):
    assert js("frontier", "nearest(places, 0.31)", places=[0.1, 0.3, 0.33, 0.9]) == 1
    assert js("frontier", "nearest(places, -4)", places=[0.1, 0.3]) == 0
    assert js("frontier", "steps([[1, 5], [2, 3]], 9)") == "1,5 2,5 2,3 9,3"


def test_one_model_alone_and_too_many(show):
    page = show(frontier(costs()[:1]))
    assert best(page) == "tiny <1>" and "best of 1 model is" in said(page)
    with pytest.raises(ValueError, match="70 models came, expected up to 60"):
        frontier([costs()[0] | {"name": str(i)} for i in range(70)])
    with pytest.raises(ValueError, match="7 families came, expected at most 6, whose colours"):
        frontier([row | {"family": row["name"]} for row in costs()])


# Names stand beside their dots, and cover nothing.

AREA = (0, 0, 300, 200)


def test_a_legend_goes_on_in_the_next_line():
    names = ["abc", "de", "a long name", "f"]
    wide = 18 + width_of("abc")
    places = flow(names, 130)
    assert places[0] == (0, 0) and places[1] == (round(wide + 16, 1), 0)
    assert places[2] == (0, 20) and places[3][1] == 20
    assert flow(["longer than the line"], 10) == [(0, 0)]


@given(
    st.lists(st.tuples(st.floats(0, 300), st.floats(0, 200)), min_size=1, max_size=25),
    st.text("abcd", min_size=1, max_size=9),
)
def test_no_name_covers_another_one_or_a_dot(dots, name):
    names = [name] * len(dots)
    sides = place_labels(dots, names, dict.fromkeys(range(len(dots)), range(len(SIDES))), AREA)
    boxes = {i: labels._box(dots[i], name, side) for i, side in enumerate(sides) if side >= 0}
    for i, box in boxes.items():
        assert labels._inside(box, AREA)
        assert not any(labels._overlap(box, other) for j, other in boxes.items() if j != i)
        for j, (x, y) in enumerate(dots):
            assert j == i or not (box[0] < x < box[2] and box[1] < y < box[3])
