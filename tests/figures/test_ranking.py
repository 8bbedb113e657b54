"""Checkpoints in an order: pairs and tau as scipy has them, cards that move, scores that wait."""

import io
from base64 import b64decode

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy.stats import kendalltau

from vitbook.figures import Candidate, checkpoint_ranking
from vitbook.figures.checkpoint_ranking import _told
from vitbook.figures.checkpoint_ranking.pairs import agreement

# Few values, so that many are equal; some without a score.
NUMBERS = st.integers(0, 4) | st.floats(-1e9, 1e9)
ROWS = st.lists(st.tuples(NUMBERS | st.none(), NUMBERS), min_size=2, max_size=9)


def state(page):
    return page.locator(".vitbook-figure").get_attribute("data-state")


def order(page):
    return [int(card) for card in state(page).split()[0].removeprefix("order=").split(",")]


def names(page):
    return page.locator("li.vb-card > div > b").all_inner_texts()


def grip(page, nth):
    return page.locator(".vb-grip").nth(nth)


def said(page):
    return page.locator(".vb-readout").inner_text()


def reached(page):
    return page.locator(".vitbook-figure").get_attribute("data-reached") == "true"


def reveal(page, times=1):
    for _ in range(times):
        page.click("[data-control=shown]")


@settings(deadline=None, max_examples=150)
@given(ROWS)
def test_tau_is_that_of_scipy_and_the_page_counts_alike(js, rows):
    scores, truths = zip(*rows, strict=True)
    found = agreement(scores, truths)
    known = [row for row in rows if row[0] is not None]
    tau = kendalltau(*zip(*known, strict=True)).statistic if len(known) > 1 else np.nan
    if np.isnan(tau):
        assert found.tau is None
    else:
        assert found.tau == pytest.approx(tau, abs=1e-12)
    assert found.right + found.wrong <= found.pairs
    live = js("checkpoint_ranking", "agreement(scores, truths)", scores=scores, truths=truths)
    assert live == pytest.approx(found._asdict())


def test_pairs_and_places_by_hand(js):
    """Four truths: the score ties one pair and turns one around, one has none."""
    found = js("checkpoint_ranking", "agreement([3, 1, 2, 2, null], [0.9, 0.8, 0.7, 0.6, 0.5])")
    assert found == pytest.approx({"right": 3, "wrong": 2, "pairs": 6, "tau": 1 / np.sqrt(5 * 6)})
    found = js("checkpoint_ranking", "agreement([1, 2, 3], [7, 8, 8])")
    assert (found["right"], found["pairs"]) == (2, 2), "a tied truth has no order"
    assert js("checkpoint_ranking", "places([5, null, 7, 5])") == [2, None, 1, 2]
    chosen = "firstChoices([1, 9, 9, null], [0.4, 0.1, 0.3, 0.2])"
    assert js("checkpoint_ranking", chosen) == [2, 4]


@settings(deadline=None, max_examples=40)
@given(st.permutations(range(6)), st.integers(0, 5), st.integers(-9, 9))
def test_a_card_moves_and_the_others_keep_their_order(js, start, card, to):
    found = js("checkpoint_ranking", "moved(start, card, to)", start=start, card=card, to=to)
    assert [each for each in found if each != card] == [each for each in start if each != card]
    assert found.index(card) == min(max(to, 0), 5)
    scores = js("checkpoint_ranking", "asScores(start)", start=found)
    assert np.argsort(scores)[::-1].tolist() == found


def test_it_starts_with_the_alphabet_and_no_score(show, ranking, candidates):
    page = show(ranking)
    assert names(page) == sorted(each.name for each in candidates)
    assert state(page) == "order=0,1,2,3,4,5,6,7 shown=0" and "No score is shown" in said(page)
    live = page.locator(".vitbook-figure").inner_text()
    for card in ranking.data["cards"]:
        assert card["told"] not in live and card["about"] in live
    for score in ranking.data["scores"]:
        assert not {told for told in score["told"] if told != "–"} & set(live.split())
    assert page.locator(".vb-lines, .vb-agreement, ol:last-child li").first.is_hidden()


def test_title_and_caption_do_not_give_the_order_away(candidates):
    figure = checkpoint_ranking(candidates)
    again = checkpoint_ranking([each._replace(tuned=0.5, lowest=0.5, highest=0.5) if i else each
                                for i, each in enumerate(candidates)])  # fmt: skip
    assert (figure.title, figure.description) == (again.title, again.description)
    assert checkpoint_ranking(candidates[::-1]).data == figure.data


def test_scores_come_one_after_another_and_then_the_accuracy(show, ranking):
    page, scores = show(ranking), ranking.data["scores"]
    for count in range(1, len(scores) + 1):
        reveal(page)
        assert state(page).endswith(f"shown={count}")
        assert page.locator(".vb-heads-of .vb-scores span").all_inner_texts() == [
            score["name"] for score in scores[:count]
        ]
        shown = page.locator("li.vb-card .vb-scores").all_text_contents()
        assert shown == ["".join(f"{score['name']}: {score['told'][i]}" for score in scores[:count])
                         for i in range(8)]  # fmt: skip
        assert page.locator(".vb-agreement").is_hidden()
    assert (
        page.locator("[data-control=shown]").inner_text() == "Show the accuracy after fine-tuning"
    )
    reveal(page)
    assert page.locator(".vb-agreement").is_visible() and page.locator(".vb-lines").is_visible()
    page.locator("[data-control=shown]").press("Enter")
    assert state(page).endswith("shown=4"), "there is no more"
    assert page.locator("[data-control=shown]").get_attribute("aria-disabled") == "true"
    page.click("[data-control=reset]")
    assert state(page).endswith("shown=0") and page.locator(".vb-agreement").is_hidden()


def test_the_board_says_what_is_counted(show, ranking):
    page, data = show(ranking), ranking.data
    grip(page, 2).press("ArrowUp")
    reveal(page, 4)
    tuned = [card["tuned"] for card in data["cards"]]
    own = [-order(page).index(i) for i in range(8)]
    rows = page.locator(".vb-agreement li").all_text_contents()
    values = [own, *(score["values"] for score in data["scores"])]
    heads = ["you, before the scores", *(score["name"] for score in data["scores"])]
    for row, head, scores in zip(rows, heads, values, strict=True):
        found = agreement(scores, tuned)
        tau = f"{found.tau:.2f}".replace("-", "−")
        assert row.startswith(f"{head}{found.words}τ-b {tau}first choice ends at place ")
    assert "1 without this score" in rows[-1]


def test_after_the_reveal_the_number_follows_the_cards(show, ranking):
    page = show(ranking)
    tuned = [card["tuned"] for card in ranking.data["cards"]]
    grip(page, 0).press("ArrowDown")
    committed = order(page)
    reveal(page, 4)
    for target, card in enumerate(sorted(range(8), key=lambda i: -tuned[i])):
        while (at := order(page).index(card)) > target:
            grip(page, at).press("ArrowUp")
            found = agreement([-order(page).index(i) for i in range(8)], tuned)
            assert f"your order {found.right} of {found.pairs}" in said(page)
            now = page.locator(".vb-agreement li").nth(1).text_content()
            assert now.startswith(f"you, now{found.words}") or order(page) == committed
    assert found.right == found.pairs
    drawn = page.locator(".vb-lines line").evaluate_all(
        "all => all.map(({ y1, y2 }) => [y1, y2].map((end) => end.baseVal.value))"
    )
    assert drawn == [[i + 0.5] * 2 for i in range(8)], "all lines are level"
    assert not reached(page), "what is moved after the first score does not count"


@pytest.mark.parametrize("moves", [0, 1, 30])
def test_the_task_is_reached_by_an_order_made_before_the_scores(show, ranking, moves):
    page = show(ranking)
    tuned = [card["tuned"] for card in ranking.data["cards"]]
    for target, card in enumerate(sorted(range(8), key=lambda i: -tuned[i])):
        while (at := order(page).index(card)) > target and moves:
            grip(page, at).press("ArrowUp")
            moves -= 1
    own = agreement([-order(page).index(i) for i in range(8)], tuned)
    rival = agreement(ranking.data["scores"][0]["values"], tuned)
    reveal(page, 3)
    assert not reached(page)
    reveal(page)
    assert reached(page) == (own.right / own.pairs > rival.right / rival.pairs)
    if order(page) == list(range(8)):
        assert "the alphabet" in page.locator(".vb-agreement li").first.inner_text()


def test_keys_move_a_card_within_the_list_and_keep_the_focus(show, ranking):
    page = show(ranking)
    name = names(page)[1]
    grip(page, 1).focus()
    for place in (1, 1):
        page.keyboard.press("ArrowUp")
        assert names(page)[place - 1] == name
    for _ in range(12):
        page.keyboard.press("ArrowDown")
    assert names(page)[-1] == name and order(page)[-1] == 1
    focused = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert focused == name
    assert grip(page, 7).get_attribute("aria-valuetext") == "place 8 of 8"
    assert f"{name} is at place 8 of 8." in said(page), "the move is announced"


def test_its_arrows_move_a_card_by_one(show, ranking):
    page = show(ranking)
    first, second = names(page)[:2]
    page.get_by_role("button", name=f"{first} down").click()
    assert names(page)[:2] == [second, first]
    page.get_by_role("button", name=f"{first} up").click()
    page.get_by_role("button", name=f"{first} up").click()
    assert names(page)[:2] == [first, second]


def middle(page, nth, part="li.vb-card"):
    box = page.locator(part).nth(nth).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@pytest.mark.parametrize("width", [900, 390])
@pytest.mark.parametrize("shown", [0, 4])
def test_a_card_follows_the_mouse(show, ranking, width, shown):
    page = show(ranking, width=width)
    reveal(page, shown)
    name = names(page)[1]
    page.mouse.move(*middle(page, 1))
    page.mouse.down()
    for place in (2, 3, 5, 6, 4, 0):
        page.mouse.move(*middle(page, place), steps=4)
        assert names(page)[place] == name
    page.mouse.move(10, 0)
    page.mouse.up()
    page.mouse.move(*middle(page, 4))
    assert order(page) == [1, 0, 2, 3, 4, 5, 6, 7]
    assert page.evaluate("getSelection().toString()") == ""


def test_what_is_no_drag_moves_no_card(show, ranking):
    """The right button opens a menu, and a screen reader clicks without a place."""
    page = show(ranking)
    before = state(page)
    page.mouse.move(*middle(page, 1))
    page.mouse.down(button="right")
    page.mouse.move(*middle(page, 4), steps=4)
    page.mouse.up(button="right")
    assert state(page) == before
    grip(page, 5).evaluate("grip => grip.click()")
    assert state(page) == before


def test_long_names_stay_on_a_narrow_page(show):
    word = "averylongname" * 8
    rows = [Candidate(f"{word}{i}", word, {word: i, "some words " * 9: -i}, *[i / 4] * 3)
            for i in range(3)]  # fmt: skip
    page = show(checkpoint_ranking(rows), width=390)
    for _ in range(3):
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        reveal(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_finger_drags_the_number_and_scrolls_beside_it(touched, ranking):
    page, finger = touched(ranking)
    ways = [middle(page, place, ".vb-grip") for place in (1, 2, 3)]
    finger(*ways)
    assert order(page)[:4] == [0, 2, 3, 1] and page.evaluate("scrollY") == 0
    before, (x, y) = state(page), middle(page, 4)
    finger((x, y), (x, y - 40), (x, y - 160))
    assert page.evaluate("scrollY") > 0 and state(page) == before


@pytest.mark.parametrize(("width", "shown"), [(1200, 4), (760, 4), (390, 0), (390, 4)])
def test_the_two_lists_stand_side_by_side(show, ranking, width, shown):
    page = show(ranking, width=width)
    reveal(page, shown)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    heights = {round(page.locator("li.vb-card").nth(i).bounding_box()["height"]) for i in range(8)}
    assert len(heights) == 1, "a line meets its card"
    if shown:
        for i in range(8):
            end = middle(page, i, ".vb-ranking ol:last-child li")
            assert end[1] == pytest.approx(middle(page, i)[1], abs=3)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_is_accessible_after_the_reveal(show, ranking, theme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = show("<main><h1>A page</h1>", ranking, "</main>", theme=theme)
    reveal(page, 4)
    found = axe.run(page).response["violations"]
    assert [(each["id"], each["nodes"][0]["html"]) for each in found] == []
    assert page.get_by_role("list", name="Your order").get_by_role("listitem").count() == 8
    assert page.get_by_role("slider").count() == 8
    assert page.get_by_role("img", name="filters of the first layer of").count() == 7


def test_names_are_text(show, candidates):
    named = [each._replace(name=f"<b>{i}</b>", about="<i>") for i, each in enumerate(candidates)]
    page = show(checkpoint_ranking(named))
    reveal(page, 4)
    assert names(page)[0] == "<b>0</b>"


def test_filters_lie_side_by_side():
    """Three of them, in two columns: the fourth place is empty, and there is a line between."""
    filters = torch.tensor([10, 20, 30], dtype=torch.uint8)[:, None, None, None].expand(3, 1, 2, 2)
    rows = [Candidate(name, "", {"a": i}, i / 4, i / 4, i / 4, filters)
            for i, name in enumerate("xyz")]  # fmt: skip
    address = checkpoint_ranking(rows).data["cards"][0]["filters"]
    sheet = np.asarray(Image.open(io.BytesIO(b64decode(address.split(",")[1]))))
    assert sheet.shape == (140, 140, 4)
    assert sheet[::100, ::100, 0].tolist() == [[10, 20], [30, 0]]
    assert sheet[::100, ::100, 3].tolist() == [[255, 255], [255, 0]]
    assert not sheet[68:72, :, 3].any() and not sheet[:, 68:72, 3].any()


def test_without_filters_and_with_one_seed_nothing_is_said_of_them(show):
    rows = [Candidate(n, "", {"a": i}, i / 4, i / 4, i / 4) for i, n in enumerate("xyz")]
    figure = checkpoint_ranking(rows)
    assert "filters" not in figure.description and figure.data["close"] == ""
    page = show(figure)
    reveal(page, 2)
    assert page.locator(".vb-live .vb-image").count() == 0


def test_the_mean_of_equal_numbers_may_lie_beside_them():
    seeds = [0.1, 0.1, 0.1]
    mean = sum(seeds) / 3
    assert mean != 0.1
    rows = [Candidate(n, "", {"a": i}, mean + i / 4, 0.1 + i / 4, 0.1 + i / 4)
            for i, n in enumerate("xyz")]  # fmt: skip
    assert checkpoint_ranking(rows).data["cards"][0]["told"] == "0.100"


def test_numbers_of_numpy_are_numbers():
    rows = [Candidate(n, "", {"a": np.int64(i), "b": np.float32(i)}, *[np.float32(i / 4)] * 3)
            for i, n in enumerate("xyz")]  # fmt: skip
    plain = [Candidate(n, "", {"a": i, "b": i}, *[i / 4] * 3) for i, n in enumerate("xyz")]
    assert checkpoint_ranking(rows).json == checkpoint_ranking(plain).json


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([0.5, None, 0.25], ["0.500", "–", "0.250"]),
        ([-1.25, 12.3456], ["−1.2", "12.3"]),
        ([86_567_656, 5], ["8.66e+07", "5.00e+00"]),
        ([0, 0], ["0.00", "0.00"]),
        ([120, 3], ["120", "3"]),
        ([1e-9, 0], ["1.00e−09", "0.00e+00"]),
    ],
)
def test_a_score_has_three_digits(values, told):
    assert _told(values) == told


GOOD = [Candidate(name, "", {"a": i}, i / 4, i / 4, i / 4) for i, name in enumerate("xyz")]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (dict(name="y"), "the name 'y' came twice, expected one for each"),
        (dict(name=" "), "the name ' ' came, expected words"),
        (dict(name=7), "the name 7 came, expected words"),
        (dict(scores={"a": 10**400}), "the score 'a' of 'x' came as 1000.*, expected a finite"),
        (dict(scores={}), "'x' came without scores, expected at least one"),
        (dict(scores={"b": 1}), "the scores of 'y' are a, and those of 'x' are b: expected the"),
        (dict(scores={"a": 1, "b": 1}), "the scores of 'y' are a, and those of 'x' are a, b"),
        (dict(scores={"a": np.nan}), "the score 'a' of 'x' came as nan, expected a finite number,"),
        (dict(scores={"a": np.inf}), "came as inf, expected a finite number, or None"),
        (dict(scores={"a": True}), "the score 'a' of 'x' came as True, expected a finite number"),
        (dict(tuned=84.1), "the mean accuracy of 'x' came as 84.1, expected 0 to 1: divide a perc"),
        (dict(lowest=-0.1), "the lowest accuracy of 'x' came as -0.1, expected 0 to 1"),
        (dict(highest=np.nan), "the highest accuracy of 'x' came as nan, expected 0 to 1"),
        (dict(tuned=0.3), "the mean accuracy 0.3 of 'x' came with 0.0 as the lowest and 0.0 as th"),
        (dict(filters=torch.ones(4, 3, 2, 2)), "the filters of 'x' came as float32 of shape"),
        (
            dict(filters=np.ones((3, 2, 2), np.uint8)),
            r"shape \(3, 2, 2\), expected uint8 \(n, 1 or",
        ),
        (dict(filters=np.ones((2, 2, 2, 2), np.uint8)), r"shape \(2, 2, 2, 2\), expected uint8"),
        (
            dict(filters=np.ones((65, 1, 2, 2), np.uint8)),
            "expected uint8 .* with up to 64 of up to",
        ),
        (dict(filters=np.ones((1, 1, 2, 33), np.uint8)), "of up to 32 pixels a side: scale them"),
        (dict(filters=np.ones((0, 1, 2, 2), np.uint8)), r"shape \(0, 1, 2, 2\), expected uint8"),
    ],
)
def test_bad_input_gets_one_sentence(changed, words):
    with pytest.raises(ValueError, match=words):
        checkpoint_ranking([GOOD[0]._replace(**changed), *GOOD[1:]])


def test_an_order_needs_three_and_numbers_that_differ():
    for count in (0, 2, 17):
        rows = [GOOD[0]._replace(name=str(i)) for i in range(count)]
        with pytest.raises(ValueError, match=f"{count} checkpoints came, expected 3 to 16"):
            checkpoint_ranking(rows)
    flat = [each._replace(scores={"a": 1, "b": i}) for i, each in enumerate(GOOD)]
    with pytest.raises(ValueError, match="the score 'a' puts no two checkpoints in an order"):
        checkpoint_ranking(flat)
    rare = [each._replace(scores={"a": i or None}) for i, each in enumerate(GOOD[:2] + GOOD[:1])]
    rare = [each._replace(name=str(i)) for i, each in enumerate(rare)]
    assert checkpoint_ranking(rare)
    with pytest.raises(ValueError, match="the score 'a' puts no two checkpoints in an order"):
        checkpoint_ranking([each._replace(tuned=0.5, lowest=0.5, highest=0.5) for each in GOOD])
