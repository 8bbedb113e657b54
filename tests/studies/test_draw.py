"""Drawings of many hands, and what the model of the page reads."""

import numpy as np
import torch

import vitbook
from vitbook.studies import draw


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
