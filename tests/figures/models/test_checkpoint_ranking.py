"""Checkpoints in an order: cards that move, scores that wait, pairs as scipy counts them."""

import io
from base64 import b64decode
from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from reading import middle, parts, reached, said, state
from scipy.stats import kendalltau
from small_inputs import seeded

from vitbook import runs
from vitbook.figures import Candidate, checkpoint_ranking
from vitbook.figures.checkpoint_ranking import _told

MODELS = ("vit_micro_patch2_8", "vit_nopos_micro_patch2_8", "resnet8_digits", "vit_micro_r8_s2_8",
          "rot_vit_micro_zero_patch2_8", "axial_vit_micro_patch1_8", "sl_vit_micro_patch2_8",
          "deit_micro_distilled_patch1_8")  # fmt: skip


@cache
def candidates():
    """Models of the ledger in the places of checkpoints, and a few pixels as their filters.

    Their scores are what the ledger says: accuracies of early passes, and the parameters.
    """
    made, ledger = [], runs.read()
    for seed, name in enumerate(MODELS):
        rows = [row for row in ledger if (row.model, row.recipe["name"]) == (name, "digits")]
        early = {n: float(np.mean([run.curve[n - 1]["accuracy"] for run in rows])) for n in (2, 10)}
        size = None if "resnet" in name else rows[0].parameters
        scores = {"pass 2": early[2], "pass 10": early[10], "<parameters>": size}
        accuracies = [run.accuracy for run in rows]
        pixels = torch.randint(0, 256, (1, 3, 4, 4), dtype=torch.uint8, generator=seeded(seed))
        made.append(Candidate(name, f"{len(rows)} seeds, {len(rows[0].curve)} data passes", scores,
                              float(np.mean(accuracies)), min(accuracies), max(accuracies),
                              None if name == MODELS[6] else pixels))  # fmt: skip
    return made


@cache
def sample():
    return checkpoint_ranking(candidates())


TUNED = [card["tuned"] for card in sample().data["cards"]]
SCORES = sample().data["scores"]
BEST_FIRST = sorted(range(8), key=lambda card: -TUNED[card])


def order(page):
    return [int(card) for card in parts(page)["order"].split(",")]


class Pairs(NamedTuple):
    right: int
    wrong: int
    pairs: int
    tau: float | None

    @property
    def words(self) -> str:
        return f"{self.right} of {self.pairs} pairs"


def agreement(scores, truths) -> Pairs:
    """Pairs whose truths differ, counted one by one; tau by scipy, None where it is undefined."""
    known = [(s, t) for s, t in zip(scores, truths, strict=True) if s is not None]
    apart = [(s - r) * (t - u) for (s, t), (r, u) in combinations(known, 2) if t != u]
    tau = kendalltau(*zip(*known, strict=True)).statistic if len(known) > 1 else np.nan
    right, wrong = sum(way > 0 for way in apart), sum(way < 0 for way in apart)
    return Pairs(right, wrong, len(apart), None if np.isnan(tau) else float(tau))


def own(page):
    """The pairs that the page's order gets right."""
    return agreement([-order(page).index(i) for i in range(8)], TUNED)


def names(page):
    return page.locator("li.vb-card > div > b").all_inner_texts()


def grip(page, nth):
    return page.locator(".vb-grip").nth(nth)


def reveal(page, times=1):
    for _ in range(times):
        page.click("[data-control=shown]")


ROWS = st.lists(st.tuples(st.integers(0, 4) | st.none(), st.integers(0, 4)), min_size=2, max_size=9)


@settings(deadline=None, max_examples=60)
@given(ROWS)
def test_the_page_counts_pairs_as_scipy(js, rows):
    scores, truths = zip(*rows, strict=True)
    live = js("checkpoint_ranking", "agreement(scores, truths)", scores=scores, truths=truths)
    assert live == pytest.approx(agreement(scores, truths)._asdict())


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


def test_it_starts_with_the_alphabet_and_no_score(page):
    assert names(page) == sorted(MODELS)
    assert state(page) == "order=0,1,2,3,4,5,6,7 shown=0" and "No score is shown" in said(page)
    live = page.locator(".vitbook-figure").inner_text()
    for card in sample().data["cards"]:
        assert card["told"] not in live and card["about"] in live
    for score in SCORES:
        assert not {told for told in score["told"] if told != "–"} & set(live.split())
    assert page.locator(".vb-lines, .vb-agreement, ol:last-child li").first.is_hidden()


def test_title_and_caption_do_not_give_the_order_away():
    figure = sample()
    again = checkpoint_ranking([each._replace(tuned=0.5, lowest=0.5, highest=0.5) if i else each
                                for i, each in enumerate(candidates())])  # fmt: skip
    assert (figure.title, figure.description) == (again.title, again.description)
    assert checkpoint_ranking(candidates()[::-1]).data == figure.data


def test_scores_come_one_after_another_and_then_the_accuracy(page):
    for count in range(1, len(SCORES) + 1):
        reveal(page)
        assert parts(page)["shown"] == str(count)
        heads = page.locator(".vb-heads-of .vb-scores span").all_inner_texts()
        assert heads == [score["name"] for score in SCORES[:count]]
        shown = page.locator("li.vb-card .vb-scores").all_text_contents()
        assert shown == ["".join(f"{score['name']}: {score['told'][i]}" for score in SCORES[:count])
                         for i in range(8)]  # fmt: skip
        assert page.locator(".vb-agreement").is_hidden()
    button = page.locator("[data-control=shown]")
    assert button.inner_text() == "Show the accuracy after fine-tuning"
    reveal(page)
    assert page.locator(".vb-agreement").is_visible() and page.locator(".vb-lines").is_visible()
    button.press("Enter")
    assert parts(page)["shown"] == "4" and button.get_attribute("aria-disabled") == "true"


def test_the_board_says_what_is_counted(page):
    grip(page, 2).press("ArrowUp")
    reveal(page, 4)
    rows = page.locator(".vb-agreement li").all_text_contents()
    counted = [own(page), *(agreement(score["values"], TUNED) for score in SCORES)]
    heads = ["you, before the scores", *(score["name"] for score in SCORES)]
    for row, head, found in zip(rows, heads, counted, strict=True):
        tau = f"{found.tau:.2f}".replace("-", "−")
        assert row.startswith(f"{head}{found.words}τ-b {tau}first choice ends at place ")
    assert "1 without this score" in rows[-1]


def test_after_the_reveal_the_number_follows_the_cards(page):
    grip(page, 0).press("ArrowDown")
    committed = order(page)
    reveal(page, 4)
    for target, card in enumerate(BEST_FIRST):
        while (at := order(page).index(card)) > target:
            grip(page, at).press("ArrowUp")
            found = own(page)
            assert f"your order {found.right} of {found.pairs}" in said(page)
            now = page.locator(".vb-agreement li").nth(1).text_content()
            assert now.startswith(f"you, now{found.words}") or order(page) == committed
    assert found.right == found.pairs
    drawn = page.locator(".vb-lines line").evaluate_all(
        "all => all.map(({ y1, y2 }) => [y1, y2].map((end) => end.baseVal.value))"
    )
    assert drawn == [[i + 0.5] * 2 for i in range(8)], "all lines are level"
    assert not reached(page), "what is moved after the first score does not count"


@pytest.mark.parametrize("moves", [0, 30])
def test_the_task_is_reached_by_an_order_made_before_the_scores(page, moves):
    for target, card in enumerate(BEST_FIRST):
        while (at := order(page).index(card)) > target and moves:
            grip(page, at).press("ArrowUp")
            moves -= 1
    rival = agreement(SCORES[0]["values"], TUNED)
    reveal(page, 3)
    assert not reached(page)
    reveal(page)
    assert reached(page) == (own(page).right / own(page).pairs > rival.right / rival.pairs)
    if order(page) == list(range(8)):
        assert "the alphabet" in page.locator(".vb-agreement li").first.inner_text()


def test_keys_move_a_card_within_the_list_and_keep_the_focus(page):
    name = names(page)[1]
    grip(page, 1).focus()
    for _ in range(2):
        page.keyboard.press("ArrowUp")
        assert names(page)[0] == name
    for _ in range(12):
        page.keyboard.press("ArrowDown")
    assert names(page)[-1] == name and order(page)[-1] == 1
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == name
    assert grip(page, 7).get_attribute("aria-valuetext") == "place 8 of 8"
    assert f"{name} is at place 8 of 8." in said(page), "the move is announced"


@pytest.mark.parametrize(("width", "shown"), [(900, 0), (390, 4)])
def test_a_card_follows_the_mouse(page, width, shown):
    page.set_viewport_size({"width": width, "height": 900})
    reveal(page, shown)
    card, name = "li.vb-card", names(page)[1]
    page.mouse.move(*middle(page, card, 1))
    page.mouse.down()
    for place in (2, 5, 4, 0):
        page.mouse.move(*middle(page, card, place), steps=4)
        assert names(page)[place] == name
    page.mouse.move(10, 0)
    page.mouse.up()
    page.mouse.move(*middle(page, card, 4))
    assert order(page) == [1, 0, 2, 3, 4, 5, 6, 7]
    assert page.evaluate("getSelection().toString()") == ""


def test_what_is_no_drag_moves_no_card(page):
    """The right button opens a menu, and a screen reader clicks without a place."""
    before = state(page)
    page.mouse.move(*middle(page, "li.vb-card", 1))
    page.mouse.down(button="right")
    page.mouse.move(*middle(page, "li.vb-card", 4), steps=4)
    page.mouse.up(button="right")
    grip(page, 5).evaluate("grip => grip.click()")
    assert state(page) == before


def test_it_is_accessible_after_the_reveal(show):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = show("<main><h1>A page</h1>", sample(), "</main>")
    reveal(page, 4)
    found = axe.run(page).response["violations"]
    assert [(each["id"], each["nodes"][0]["html"]) for each in found] == []
    assert page.get_by_role("list", name="Your order").get_by_role("listitem").count() == 8
    assert page.get_by_role("slider").count() == 8
    assert page.get_by_role("img", name="filters of the first layer of").count() == 7


def row(name, i, scores=None, filters=None):
    return Candidate(name, "", scores or {"a": i}, i / 4, i / 4, i / 4, filters)


def test_filters_lie_side_by_side():
    """Three of them, in two columns: the fourth place is empty, and there is a line between."""
    filters = torch.tensor([10, 20, 30], dtype=torch.uint8)[:, None, None, None].expand(3, 1, 2, 2)
    figure = checkpoint_ranking([row(name, i, None, filters) for i, name in enumerate("xyz")])
    address = figure.data["cards"][0]["filters"]
    sheet = np.asarray(Image.open(io.BytesIO(b64decode(address.split(",")[1]))))
    assert sheet.shape == (140, 140, 4)
    assert sheet[::100, ::100, 0].tolist() == [[10, 20], [30, 0]]
    assert sheet[::100, ::100, 3].tolist() == [[255, 255], [255, 0]]
    assert not sheet[68:72, :, 3].any() and not sheet[:, 68:72, 3].any()


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
