from vitbook.plots import intervals, leads

FIRST = {"one": (0.5, 0.4, 0.6), "two": (0.0, -0.1, 0.1)}
SECOND = {"one": (-0.5, -0.6, -0.4), "two": (0.2, 0.1, 0.3)}
WORDS = dict(labels=("deletion", "insertion"), x_label="lead")


def test_every_interval_is_drawn_on_one_scale():
    figure = leads(FIRST, SECOND, "A claim", **WORDS)
    assert figure.get_suptitle() == "A claim" and figure.get_supxlabel() == "lead"
    left, right = figure.axes
    assert (left.get_title(), right.get_title()) == ("deletion", "insertion")
    assert left.get_xlim() == right.get_xlim() and left.yaxis_inverted()
    assert [tick.get_text() for tick in left.get_yticklabels()] == ["one", "two"]
    for axis, spans in ((left, FIRST), (right, SECOND)):
        zero, *drawn = axis.lines
        assert list(zero.get_xdata()) == [0, 0]
        for line, (mean, low, high) in enumerate(spans.values()):
            bar, dot = drawn[2 * line : 2 * line + 2]
            assert list(bar.get_xdata()) == [low, high] and list(dot.get_xdata()) == [mean]
    hollow = [left.lines[place].get_markerfacecolor() == "white" for place in (2, 4)]
    assert hollow == [False, True]  # the second is not told from zero


def test_a_line_for_each_name_beside_levels():
    figure = intervals(FIRST, "A claim", x_label="accuracy, %", levels={"chance": 0.2})
    (axis,) = figure.axes
    assert [tick.get_text() for tick in axis.get_yticklabels()] == ["one", "two"]
    level, *drawn = axis.lines
    assert list(level.get_xdata()) == [0.2, 0.2] and axis.yaxis_inverted()
    for line, (mean, low, high) in enumerate(FIRST.values()):
        bar, dot = drawn[2 * line : 2 * line + 2]
        assert list(bar.get_xdata()) == [low, high] and list(dot.get_xdata()) == [mean]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["chance"]
