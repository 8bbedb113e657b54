"""Quarters taken away: the page holds the model's 16 answers, and shows those of what is left."""

import numpy as np
import pytest
import torch
from reading import computed, pick, reached, said
from torch import nn

from vitbook.figures import missing_quarters

# By hand: ten times 0.8, 0.6 - 0.8 and 0.4 where all are there; a quarter that is gone has 0.4.
WHOLE, WITHOUT_FIRST, WITHOUT_THIRD = [8, -2, 4], [4, 2, 3], [8, -4, 3.5]
# Four flat quarters, 0.8, 0.2, 0.6 and 0 of white; their mean is 0.4.
LEVELS = torch.tensor([[204, 51], [153, 0]], dtype=torch.uint8)
COLLAGE = LEVELS.repeat_interleave(8, 0).repeat_interleave(8, 1).expand(3, 16, 16)


class Brightness(nn.Module):
    """Three logits of images "n 3 h w" from 0 to 1, ten times a mean brightness each.

    The first is that of the first quarter; the second that of the third less that of the first;
    the third that of all, which stays.
    """

    def forward(self, images):
        n, _, height, width = images.shape
        parts = images.reshape(n, 3, 2, height // 2, 2, width // 2).mean((1, 3, 5)).flatten(1)
        return 10 * torch.stack([parts[:, 0], parts[:, 2] - parts[:, 0], parts.mean(1)], dim=1)


def make(goal=("red <hot>", "up"), **changed):
    given = dict(model=Brightness(), classes={"bright": 0, "red <hot>": 1, "all": 2},
                 labels=("cat", "stars", "coffee", "rocket")) | changed  # fmt: skip
    return missing_quarters(given.pop("model"), COLLAGE, given.pop("classes"), goal=goal,
                            normalize=lambda images: images / 255, task="Take one away.",
                            **given)  # fmt: skip


def sample():
    return make()


def quarter(page, number):
    return page.locator("[data-control=removed] button").nth(number)


def numbers(page):
    return page.locator(".vb-logit > :nth-child(3)").all_inner_texts()


def changes(page):
    return page.locator(".vb-logit > :nth-child(4)").all_inner_texts()


def test_all_sixteen_answers_are_the_models():
    data = sample().data
    found = np.array(data["logits"])
    assert found.shape == (16, 3)
    for removed in range(16):
        left = [0.4 if removed >> q & 1 else level for q, level in enumerate((0.8, 0.2, 0.6, 0))]
        expected = [10 * left[0], 10 * (left[2] - left[0]), 10 * np.mean(left)]
        assert found[removed] == pytest.approx(expected, abs=1e-3)
    assert list(found[1]) == WITHOUT_FIRST and list(found[4]) == WITHOUT_THIRD
    assert data["mean"] == [102, 102, 102] and data["scale"] == [-4, 8]


@torch.no_grad()
def test_a_removed_quarter_becomes_the_mean_colour():
    model = Brightness().train()
    found = np.array(make(model=model, classes={"c": 2, "a": 0, "b": 1}, goal=None).data["logits"])
    whole, four = COLLAGE[None] / 255, torch.cartesian_prod(torch.arange(2), torch.arange(2))
    for row, (down, right) in zip(found[[1, 2, 4, 8]], 8 * four, strict=True):
        without = whole.clone()
        without[..., down : down + 8, right : right + 8] = whole.mean((2, 3), keepdim=True)
        drops = (model(whole) - model(without))[0, [2, 0, 1]]
        assert found[0] - row == pytest.approx(drops.numpy(), abs=2e-3)
    assert model.training, "the model is left as it came"


def test_the_caption_says_what_each_class_lives_on():
    assert sample().description == (
        "Logits when one quarter is taken away: bright falls most without cat (by 4.00), red <hot> "
        "without coffee (by 2.00), all without cat (by 1.00). The largest rise: red <hot> without "
        "cat (by 4.00)."
    )


def test_a_click_takes_a_quarter_away_and_brings_it_back(page):
    assert numbers(page) == ["8.00", "−2.00", "4.00"] and changes(page) == ["", "", ""]
    assert quarter(page, 0).get_attribute("aria-label") == "cat: there"
    quarter(page, 0).click()
    assert numbers(page) == ["4.00", "2.00", "3.00"]
    assert changes(page) == ["−4.00", "+4.00", "−1.00"]
    assert quarter(page, 0).get_attribute("aria-label") == "cat: taken away"
    assert quarter(page, 0).get_attribute("aria-pressed") == "true"
    colour = quarter(page, 0).evaluate("e => getComputedStyle(e).backgroundColor")
    assert colour == "rgb(102, 102, 102)" and quarter(page, 0).inner_text() == "cat"
    assert "Taken away: cat. Largest fall: bright, by 4.00. Largest rise: red <hot>, by" in said(
        page
    )
    quarter(page, 0).click()
    assert numbers(page) == ["8.00", "−2.00", "4.00"] and quarter(page, 0).inner_text() == ""


def test_every_combination_shows_its_own_answer(page):
    removed, answers = 0, sample().data["logits"]
    for step in range(1, 16):  # a Gray code: one click from each to the next
        bit = (step & -step).bit_length() - 1
        pick(page, "removed", bit)
        removed ^= 1 << bit
        assert computed(page, "logits") == answers[removed]


@pytest.mark.parametrize(
    ("goal", "reaches"), [(("red <hot>", "up"), {0}), (("red <hot>", "down"), {2}), (None, set())]
)
def test_reached_where_the_logit_of_the_goal_moves_by_one(show, goal, reaches):
    page = show(make(goal=goal))
    for number in range(4):
        pick(page, "removed", number)
        assert reached(page) == (number in reaches)
        if reaches == {0} == {number}:
            told = "with cat taken away, the logit of red <hot> is 4.00 higher than with all"
            assert told in said(page)
        page.click("[data-control=reset]")


def test_node_computes_what_the_page_says(js):
    assert js("missing_quarters", "[0, 6, 15].map(quartersIn)") == [[], [1, 2], [0, 1, 2, 3]]
    told = js("missing_quarters", "[[], ['a'], ['a', 'b'], ['a', 'b', 'c']].map(listed)")
    assert told == ["", "a", "a and b", "a, b and c"]
    bar = js("missing_quarters", "[3, -1, 0].map((x) => barOf(x, [-1, 3]))")
    assert bar == [{"left": 25, "width": 75}, {"left": 0, "width": 25}, {"left": 25, "width": 0}]
    said = js("missing_quarters", "movement(['a', 'b'], [-2, -1])")
    assert said == "Largest fall: a, by 2.00. "
    assert js("missing_quarters", "movement(['a'], [.004])") == "No logit changed. "
