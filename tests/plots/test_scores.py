from vitbook.plots import intervals

FIRST = {"one": (0.5, 0.4, 0.6), "two": (0.0, -0.1, 0.1)}


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
