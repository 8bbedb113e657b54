"""Tokens of one photograph in another: the page holds all answers, and shows what is asked."""

import numpy as np
import pytest
import torch
from reading import computed, parts, pick, put, reached, said

from vitbook.figures import swapped_tokens

CLASSES = ("cat", "cup <hot>", "tree")
HOT, MIRRORED = ("a cat", "a cup"), ("a cup", "a mirror")
LEVELS = torch.tensor([[204, 51], [153, 0]], dtype=torch.uint8)
PHOTO = LEVELS.repeat_interleave(8, 0).repeat_interleave(8, 1).expand(3, 16, 16)


def answers(one=(3.0, -1, 0), other=(-2.0, 4, 0)):
    """Of two blocks: in front the quarters count alike, behind them the class token nearly all."""
    shares = np.array([[0.25] * 4 + [0], [0.2] * 5, [0.05] * 4 + [0.8]])
    sets = np.arange(32)[:, None] >> np.arange(5) & 1
    share = (shares @ sets.T)[..., None]
    return (1 - share) * np.array(one) + share * np.array(other)


def make(goal=(HOT, 2), **changed):
    images = {HOT: torch.stack([PHOTO, PHOTO.flip(-1)]), MIRRORED: torch.stack([PHOTO, PHOTO])}
    logits = {HOT: answers(), MIRRORED: answers((-2.0, 4, 0))}
    given = dict(shown=CLASSES[:2], goal=goal, start=(1, 1), task="Swap one part.") | changed
    return swapped_tokens(images, given.pop("logits", logits), CLASSES, **given)


def sample():
    return make()


def numbers(page):
    return page.locator(".vb-logit > :nth-child(3)").all_inner_texts()


def changes(page):
    return page.locator(".vb-logit > :nth-child(4)").all_inner_texts()


def test_the_page_holds_the_answers_of_every_set():
    first = sample().data["pairs"][0]
    assert np.allclose(first["logits"], answers()[..., :2], atol=0.005)
    assert first["answers"] == answers().argmax(-1).tolist()
    assert first["scale"] == [-2, 4]


def test_the_caption_says_what_is_seen_at_the_start():
    assert sample().description == (
        "At the start: a cat with tokens of a cup, swapped behind 1 of 2 blocks (top left). The "
        "answer is cat."
    )
    bare = "At the start: a cat, and nothing swapped. The answer is cat."
    assert make(start=(1, 0)).description == bare


def test_a_click_swaps_a_quarter_and_swaps_it_back(page):
    page.click("[data-control=reset]")
    pick(page, "swapped", 0)
    assert parts(page)["swapped"] == "0" and changes(page) == ["", ""]
    assert "Nothing is swapped. The answer is cat." in said(page)
    pick(page, "swapped", 3)
    assert parts(page)["swapped"] == "8" and changes(page) == ["−1.00", "+1.00"]
    assert "Tokens of a cup, behind block 1: bottom right. The answer is cat." in said(page)


def test_nothing_swapped_is_ones_own_answer_and_all_is_the_others(page):
    for block in range(3):
        put(page, block=block)
        page.click("[data-control=all]")
        assert numbers(page) == ["−2.00", "4.00"] and "The answer is cup <hot>" in said(page)
        for quarter in range(4):
            pick(page, "swapped", quarter)
        page.click("[data-control=token]")
        assert numbers(page) == ["3.00", "−1.00"]


def test_every_set_shows_its_own_answer(page):
    swapped, wanted = 0, answers()[1, :, :2].round(2)
    pick(page, "swapped", 0)
    for step in range(1, 32):  # a Gray code: one click from each to the next
        bit = (step & -step).bit_length() - 1
        page.click("[data-control=token]") if bit == 4 else pick(page, "swapped", bit)
        swapped ^= 1 << bit
        assert computed(page, "logits") == pytest.approx(wanted[swapped].tolist())


def test_a_drag_swaps_what_it_passes(page):
    page.click("[data-control=reset]")
    box = page.locator(".vb-mask-pad").bounding_box()
    at = [(box["x"] + box["width"] * x, box["y"] + box["height"] * 0.75) for x in (0.25, 0.75)]
    page.mouse.move(*at[0])
    page.mouse.down()
    page.mouse.move(*at[1], steps=4)
    page.mouse.up()
    assert parts(page)["swapped"] == str(1 + 4 + 8)


def test_reached_where_one_part_behind_the_last_block_gives_the_others_answer(page):
    page.click("[data-control=token]")
    pick(page, "swapped", 0)
    assert not reached(page)
    put(page, block=2)
    assert reached(page) and "class token alone, behind block 2, the last, gives cup" in said(page)
    pick(page, "swapped", 1)
    assert not reached(page) and "Is one of these parts enough?" in said(page)


def test_another_pair_begins_with_nothing_swapped(page):
    page.select_option("[data-control=pair]", "1")
    assert "Nothing is swapped. The answer is cup <hot>." in said(page)
    page.click("[data-control=all]")
    assert changes(page) == ["0.00", "0.00"], "the control: a mirrored photograph"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (dict(shown=("dog",)), "shown class 'dog': expected some of the classes, cat, cup"),
        (dict(logits={HOT: answers()[:, :16], MIRRORED: answers()}),
         r"a cat and a cup: 2 images with logits of \(3, 16, 3\), expected 2 and"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said(given, words):
    with pytest.raises(ValueError, match=words):
        make(**given)


def test_node_computes_what_the_page_says(js):
    assert js("swapped_tokens", "[0, 6, 31].map(partsIn)") == [[], [1, 2], [0, 1, 2, 3, 4]]
    told = js("swapped_tokens", "[[], ['a'], ['a', 'b'], ['a', 'b', 'c']].map(listed)")
    assert told == ["", "a", "a and b", "a, b and c"]
    bar = js("swapped_tokens", "[3, -1, 0].map((x) => barOf(x, [-1, 3]))")
    assert bar == [{"left": 25, "width": 75}, {"left": 0, "width": 25}, {"left": 25, "width": 0}]
    said = js("swapped_tokens", "[0, 3, 12].map((at) => placed(at, 12))")
    assert said == ["in front of block 1", "behind block 3", "behind block 12, the last"]
