import matplotlib.pyplot as plt
import pytest

from vitbook.plots import accuracy_and_error

SIZES = [1, 4, 16]
ACCURACY = {"rank": [0.5, 0.9, 1.0], "features": [0.1, 0.2, 0.4]}
ERROR = {"features": [0.9, 0.8, 0.5], "rank": [0.4, 0.1, 0.0]}


def drawn():
    return accuracy_and_error(
        SIZES, ACCURACY, ERROR, "A claim", x_label="size", levels={"whole": 0.98}
    )


def test_both_panels_draw_what_they_are_given_and_a_name_keeps_its_colour():
    figure = drawn()
    assert figure.get_suptitle() == "A claim" and not plt.get_fignums()
    top, low = figure.axes
    for axis, given in ((top, ACCURACY), (low, ERROR)):
        lines = {line.get_label(): line for line in axis.lines}
        assert {name: list(lines[name].get_ydata()) for name in given} == given
        assert {name: lines[name].get_color() for name in given} == {
            line.get_label(): line.get_color() for line in top.lines if line.get_label() in given
        }
    assert len({line.get_color() for line in low.lines}) == 2


def test_the_scales_hide_nothing():
    top, low = drawn().axes
    assert top.get_ylim()[0] == low.get_ylim()[0] == 0 and top.get_ylim()[1] >= 1
    assert low.get_ylim()[1] >= 0.9 and top.get_xscale() == low.get_xscale() == "log"
    assert [label.get_text() for label in low.get_xticklabels()] == ["1", "4", "16"]
    (legend,) = top.get_figure().legends
    assert [text.get_text() for text in legend.get_texts()] == [*ACCURACY, "whole"]


def test_an_error_without_an_accuracy_is_refused():
    with pytest.raises(KeyError, match="other"):
        accuracy_and_error(SIZES, ACCURACY, {"other": [0, 0, 0]}, "t", x_label="", levels={})
    assert not plt.get_fignums()
