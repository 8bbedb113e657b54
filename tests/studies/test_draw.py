"""Drawings of many hands, seen in Python as in the page, and what the page's model reads."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import vitbook
from vitbook import datasets
from vitbook.studies import draw

POINT = st.tuples(st.integers(0, 511), st.integers(0, 511)).map(list)
STROKES = st.lists(st.lists(POINT, min_size=1, max_size=9), min_size=1, max_size=4)


def levels(js, strokes):
    """What the page's own code makes of strokes."""
    pixels = js("handprint", "pixelsOf(strokes, [8, 8], 16)", strokes=strokes)
    return np.rint(np.array(pixels).reshape(8, 8) * 16 / 255)


def test_drawings_are_the_same_each_time_and_of_hands_that_differ():
    strokes, meant = draw.drawings()
    assert (strokes, meant) == draw.drawings()
    assert [meant.count(digit) for digit in range(10)] == [draw.EACH] * 10
    points = [np.concatenate(each) for each in strokes]
    sizes = [np.ptp(each, axis=0).max() for each in points]
    assert (
        min(each.min() for each in points) >= 0 and max(each.max() for each in points) < draw.SIDE
    )
    assert max(sizes) > 3 * min(sizes)
    assert {len(each) for each in strokes} == {1, 2}
    assert max(map(len, points)) > 4 * min(map(len, points)), "slow hands and quick ones"
    ones = [len(strokes[i]) for i in range(len(meant)) if meant[i] == 1]
    assert set(ones) == {1, 2}, "without a foot and with one"


def test_what_is_drawn_has_the_ink_of_the_training_digits():
    drawn = np.stack([draw.seen(strokes) for strokes in draw.drawings()[0]])
    images = datasets.load("digits", "train").images[:, 0].float().numpy() * 16 / 255
    assert drawn.mean() == pytest.approx(images.mean(), rel=0.05)
    assert (drawn > 0).mean() == pytest.approx((images > 0).mean(), rel=0.05)
    assert (drawn == 16).mean() == pytest.approx((images > 15.5).mean(), rel=0.2)


def test_node_and_python_see_the_same_of_every_drawing_and_refuse_none(js):
    for strokes in draw.drawings()[0]:
        assert np.array_equal(levels(js, strokes), draw.seen(strokes))
        assert js("handprint", "noDigit(strokes)", strokes=strokes) == ""


@settings(deadline=None, max_examples=40)
@given(STROKES)
def test_node_and_python_see_the_same_of_any_strokes(js, strokes):
    assert np.array_equal(levels(js, strokes), draw.seen(strokes))


def test_the_model_of_the_page_reads_19_of_20():
    drawn = draw.read(vitbook.load_checkpoint(draw.MODEL).model)
    assert len(drawn.meant) == 200 and drawn.right >= 190
    assert drawn.images.shape == (200, 1, 8, 8)


def test_mistakes_are_counted_by_kind():
    images = torch.arange(5, dtype=torch.uint8)[:, None, None, None].expand(5, 1, 8, 8)
    reading = draw.Reading(images, [1, 9, 1, 1, 0], [2, 4, 2, 1, 0])
    assert reading.right == 2
    shown = {words: int(image[0, 0, 0]) for words, image in reading.mistakes().items()}
    assert shown == {"1 read as 2, 2 times": 0, "9 read as 4": 1}
