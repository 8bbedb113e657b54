"""Strokes become pixels as the training digits did; what is no digit is told."""

import numpy as np
import pytest
from drawn_digits import DIGITS, placed

from vitbook import datasets

SEEN = "pixelsOf(strokes, [8, 8], 16)"


def points(strokes):
    """From shares of the pad to its points."""
    return [np.rint(np.array(stroke) * 511).astype(int).tolist() for stroke in strokes]


def told(js, *strokes):
    return js("handprint", "noDigit(strokes)", strokes=points(strokes))


def levels(js, strokes):
    return np.rint(np.array(js("handprint", SEEN, strokes=strokes)).reshape(8, 8) * 16 / 255)


def train():
    return np.rint(datasets.load("digits", "train").images[:, 0].float().numpy() * 16 / 255)


def test_the_training_digits_were_stretched_to_the_height_and_to_20_of_32_columns():
    """A box of 20 columns reaches from the second block to the seventh; only a lean goes beyond."""
    columns = (train() > 0).any(1)
    assert (train()[:, [0, -1]].max(2) > 0).all()
    assert columns[:, 1:7].mean(0).min() > 0.8 and columns[:, [0, 7]].mean() < 0.1
    zeros = columns[datasets.load("digits", "train").labels.numpy() == 0]
    assert zeros[:, 1:7].mean() > 0.99 and not zeros[:, [0, 7]].any()


@pytest.mark.parametrize("digit", range(10))
def test_size_and_place_change_nothing(js, digit):
    strokes = points(placed(DIGITS[digit], 0.4))
    large = [[[2 * x + 101, 2 * y + 99] for x, y in stroke] for stroke in strokes]
    assert np.array_equal(levels(js, strokes), levels(js, large))


def test_a_leaning_bar_is_set_upright(js):
    leaning = levels(js, points([[(0.62, 0.1), (0.38, 0.9)]]))
    upper, lower = (leaning[rows].sum(0) for rows in (slice(1, 3), slice(5, 7)))
    middles = [np.average(np.arange(8), weights=ink) for ink in (upper, lower)]
    assert abs(middles[0] - middles[1]) < 0.3


def test_a_narrow_zero_is_as_wide_as_a_round_one(js):
    for width in (0.3, 1):
        seen = levels(js, points([[[width * x, y] for x, y in DIGITS[0][0]]]))
        assert (seen[:, [1, 6]].max(0) > 0).all() and seen[:, [0, 7]].max() == 0


def test_what_is_no_digit_is_told(js):
    assert "empty" in js("handprint", "noDigit([])")
    assert "dot" in told(js, [(0.5, 0.5), (0.51, 0.5)])
    assert "line" in told(js, [(0.1, 0.5), (0.9, 0.52)])
    assert "line" in told(js, [(0.2, 0.2), (0.5, 0.49), (0.8, 0.8)])
    assert told(js, [(0.5, 0.1), (0.52, 0.5), (0.5, 0.9)]) == "", "an upright line is a 1"
    assert told(js, [(0.7, 0.1), (0.4, 0.9)]) == "", "and so is one that leans as a hand does"
    for left in (1, 4):
        pair = [*placed(DIGITS[left], 0.4, 0.05, 0.3), *placed(DIGITS[7], 0.4, 0.5, 0.3)]
        assert "two digits" in told(js, *pair)
    joined = [*placed(DIGITS[3], 0.4, 0.1, 0.3)[0], *placed(DIGITS[5], 0.4, 0.5, 0.3)[0]]
    assert "too wide" in told(js, joined)
    for digit in DIGITS:
        assert told(js, *placed(digit, 0.4, 0.1, 0.2)) == ""
