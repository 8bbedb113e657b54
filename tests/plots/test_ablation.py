import pytest

from vitbook.plots import ablated_heads

HEADS = [
    {"layer": 1, "head": 1, "kind": "near", "drop": [0.5, 0.4, 0.6]},
    {"layer": 1, "head": 2, "kind": "other", "drop": [0.1, -0.1, 0.3]},
    {"layer": 2, "head": 1, "kind": "near", "drop": [0.0, -0.1, 0.1]},
]
KINDS = [
    {"kind": "idle", "compared": [], "compared_drop": None, "random_drops": []},
    {"kind": "near", "compared": [[1, 1]], "compared_drop": [1, 0.8, 1.2], "random_drops": [0.3]},
]


def test_each_head_in_its_layer_and_each_kind_beside_its_draws():
    figure = ablated_heads(HEADS, KINDS, "A claim")
    above, below = figure.axes
    dots = [line for line in above.lines if line.get_label() in ("near", "other")]
    assert [float(dot.get_ydata()[0]) for dot in dots] == [0.5, 0.1, 0.0]
    assert [round(float(dot.get_xdata()[0])) for dot in dots] == [1, 1, 2]
    assert dots[0].get_xdata()[0] < 1 < dots[1].get_xdata()[0]
    assert dots[0].get_marker() != dots[1].get_marker()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["near", "other"]
    ticks, span, dot, zero = below.lines  # a kind that was not compared has no line
    assert list(ticks.get_xdata()) == [0.3] and list(span.get_xdata()) == [0.8, 1.2]
    assert list(dot.get_xdata()) == [1] and list(zero.get_xdata()) == [0, 0]
    assert [label.get_text() for label in below.get_yticklabels()] == ["1 near"]


def test_rows_of_something_else():
    with pytest.raises(ValueError, match="0 heads and 2 kinds"):
        ablated_heads([], KINDS, "A claim")
    with pytest.raises(ValueError, match="expected rows of the ledger, of idle, near"):
        ablated_heads([HEADS[0] | {"kind": "far"}], KINDS, "A claim")
