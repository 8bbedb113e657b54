"""Ink in Node: erased, simplified, and carried by a link to the bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

STROKES = st.lists(
    st.lists(st.tuples(st.integers(0, 511), st.integers(0, 511)), min_size=1, max_size=9),
    min_size=1, max_size=4,
)  # fmt: skip


@settings(deadline=None, max_examples=40)
@given(STROKES)
def test_a_link_holds_every_point(js, strokes):
    found = js("ink", "strokesOf(lettersOf(strokes))", strokes=strokes)
    assert found == [[list(point) for point in stroke] for stroke in strokes]


@pytest.mark.parametrize("text", ["", "AA", "AAAA", "AAA..AAA", "AA!", "AAA.", "A" * 3 * 601])
def test_other_letters_are_no_ink(js, text):
    assert js("ink", "strokesOf(text)", text=text) is None


@settings(deadline=None, max_examples=40)
@given(STROKES, st.tuples(st.integers(0, 511), st.integers(0, 511)), st.integers(20, 200))
def test_an_eraser_takes_what_is_under_it_and_nothing_else(js, strokes, at, radius):
    left = js("ink", "erased(strokes, at, radius)", strokes=strokes, at=at, radius=radius)
    for stroke in left:
        for (ax, ay), (bx, by) in zip(stroke, stroke[1:] or stroke, strict=False):
            for t in np.linspace(0, 1, 20):
                x, y = ax + t * (bx - ax), ay + t * (by - ay)
                assert np.hypot(x - at[0], y - at[1]) > radius - 2  # points are whole numbers
    kept = [point for stroke in left for point in stroke]
    for stroke in strokes:
        for point in stroke:
            assert np.hypot(*np.subtract(point, at)) <= radius or list(point) in kept


def test_an_eraser_cuts_a_line_in_two(js):
    left = js("ink", "erased([[[0, 100], [400, 100]]], [200, 100], 30)")
    assert left == [[[0, 100], [170, 100]], [[230, 100], [400, 100]]]


def test_a_simpler_stroke_is_shorter_and_lies_close(js):
    circle = [[round(256 + 200 * np.cos(t)), round(256 + 200 * np.sin(t))]
              for t in np.linspace(0, 6.2, 200)]  # fmt: skip
    fewer = np.array(js("ink", "simpler(stroke)", stroke=circle))
    assert 10 < len(fewer) < 40 and fewer[0].tolist() == circle[0]
    from_middle = np.hypot(*((fewer[1:] + fewer[:-1]) / 2 - 256).T)
    assert np.abs(from_middle - 200).max() < 4
