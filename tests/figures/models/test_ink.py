"""Ink in Node: fitted as the training digits are, erased, and carried by a link to the bit."""

import numpy as np
import pytest
import torch
from drawn_digits import DIGITS, placed
from hypothesis import given, settings
from hypothesis import strategies as st

import vitbook
from vitbook import datasets
from vitbook.training import predict

STROKES = st.lists(
    st.lists(st.tuples(st.integers(0, 511), st.integers(0, 511)), min_size=1, max_size=9),
    min_size=1, max_size=4,
)  # fmt: skip


@pytest.fixture
def seen(js):
    """The 8 x 8 pixels that the model sees of strokes."""

    def look(strokes):
        found = js("ink", "pixelsOf(strokes.map((stroke) => stroke.map(pointOf)), [8, 8], 16)",
                   strokes=strokes)  # fmt: skip
        return np.array(found, dtype=np.uint8).reshape(8, 8)

    return look


def middle_of(pixels):
    """The middle of the ink's box from the left, an outer column counted by its fullest pixel."""
    full = pixels.max(-2) / 255
    on = np.flatnonzero(full)
    return (on[0] + 1 - full[on[0]] + on[-1] + full[on[-1]]) / 2


def test_the_training_digits_fill_the_height_and_stand_in_the_middle():
    """What the fit is made after: 1,442 boxes of eight rows, in the middle to 0.3 of a pixel."""
    images = datasets.load("digits", "train").images[:, 0].numpy()
    rows = (images > 0).any(2)
    assert rows[:, 0].all() and rows[:, -1].all()
    middles = np.array([middle_of(image) for image in images])
    assert abs(middles.mean() - 4) < 0.15 and middles.std() < 0.3
    assert images.mean() / 255 * 16 == pytest.approx(4.88, abs=0.01)


def test_drawn_digits_are_placed_and_inked_as_those(seen):
    drawn = np.stack([seen(digit) for digit in DIGITS])
    assert (drawn[:, [0, -1]].max(-1) > 60).all()
    middles = [middle_of(pixels) for pixels in drawn]
    assert np.abs(np.array(middles) - 4).max() < 0.2
    assert drawn.mean() / 255 * 16 == pytest.approx(4.88, abs=0.4)
    assert (drawn > 0).mean() == pytest.approx(0.51, abs=0.05)
    assert set(drawn.ravel()) <= set(np.rint(np.arange(17) * 255 / 16).astype(int))


def test_small_in_a_corner_they_read_the_same_as_in_the_middle(seen):
    model = vitbook.load_checkpoint("digits-vit_micro_patch2_8-digits-seed0").model
    places = [(1, 0, 0)] + [
        (scale, left, top)
        for scale in (0.5, 0.33)
        for left in (0.02, 0.98 - scale)
        for top in (0.02, 0.98 - scale)
    ]
    large = None
    for place in places:
        images = np.stack([seen(placed(digit, *place)) for digit in DIGITS])
        chances = predict(model, torch.from_numpy(images)[:, None]).softmax(1)
        assert chances.argmax(1).tolist() == list(range(10)), place
        large = chances if large is None else large
        assert (chances - large).abs().max() < 0.15


def test_a_move_changes_no_bit(js):
    strokes = [[[10, 20], [60, 90]], [[35, 55]]]
    moved = [[[x + 301, y + 402] for x, y in stroke] for stroke in strokes]
    fit = "pixelsOf(strokes, [8, 8], 16)"
    assert js("ink", fit, strokes=strokes) == js("ink", fit, strokes=moved)


def test_what_is_wider_than_tall_keeps_its_proportions_and_a_dot_stays_one(seen):
    bar = seen([[[0.1, 0.8], [0.9, 0.8]]])
    assert (bar[[0, 1, 6, 7]] == 0).all() and (bar[3:5] > 100).all()
    dot = seen([[[0.1, 0.8]]])
    assert (dot > 0).sum() == 4 and (dot[3:5, 3:5] > 60).all()


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
