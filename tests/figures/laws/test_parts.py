"""What figures share, in Node alone, against numpy and torch."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vitbook.figures.parts.drawing import CIVIDIS, base64, heat


@settings(deadline=None, max_examples=40)
@given(scores=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_softmax_is_that_of_torch_also_for_large_scores(js, scores):
    expected = torch.tensor(scores, dtype=torch.float64).softmax(0)
    assert js("numbers", "softmax(scores)", scores=scores) == pytest.approx(expected.tolist())
    assert js("numbers", "argmax(scores)", scores=scores) == int(np.argmax(scores))


def test_bytes_come_back_as_they_went(js):
    array = np.arange(256, dtype=np.uint8)
    assert js("numbers", "bytes(text)", text=base64(array)) == array.tolist()


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 400), st.integers(1, 20))
def test_a_cell_has_a_row_and_a_column(js, cell, columns):
    row, column = divmod(cell, columns)
    assert js("numbers", "place(cell, columns)", cell=cell, columns=columns) == [row, column]
    words = js("numbers", "inWords(cell, columns)", cell=cell, columns=columns)
    assert words == f"row {row + 1}, column {column + 1}"


def test_the_cell_under_the_pointer(js):
    event, box = (
        {"clientX": 130, "clientY": 50},
        {"left": 100, "top": 40, "width": 60, "height": 40},
    )
    assert js("numbers", "inside(event, box)", event=event, box=box) == [0.5, 0.25]


@pytest.mark.parametrize(("number", "words"), [(-0.001, "0.00"), (-1.5, "−1.50"), (2, "2.00")])
def test_a_minus_is_a_minus_and_nought_has_none(js, number, words):
    assert js("numbers", "signed(number)", number=number) == words


def test_a_link_gives_only_what_lies_within_its_limits(js):
    limits = {"bits": [2, 8], "each": [0, 1], "scale": [10, 300]}
    for text, found in [
        ("bits=9&each=0.5&scale=35&toString=1&x=2", {"scale": 35}),
        ("bits=2&each=1&scale=300", {"bits": 2, "each": 1, "scale": 300}),
        ("bits=&each=NaN&scale=<b>&__proto__=1", {}),
        ("bits=-3&each=1e9&scale=31.5", {}),
    ]:
        assert js("address", "stated(text, limits)", text=text, limits=limits) == found


def test_colours_between_stops_are_those_of_numpy(js):
    weights = np.linspace(0, 1, 41)
    drawn = js("paint", "weights.map((w) => heat(ramp)(w, 1))", weights=weights, ramp=CIVIDIS)
    assert np.abs(np.array(drawn) - heat(weights[None], 1)[0]).max() <= 0.5
    stops, places = [[0.0], [10.0], [40.0]], np.linspace(0, 1, 9)
    drawn = js("paint", "places.map((p) => between(stops, p)[0])", places=places, stops=stops)
    assert drawn == pytest.approx(np.interp(places, [0, 0.5, 1], [0, 10, 40]))
    two = js("paint", "[-9, -1, 0, 1, 2, 9].map((x) => twoSided(x, 4))")
    assert two == [0, 0.375, 0.5, 0.625, 0.75, 1]
