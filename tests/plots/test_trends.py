import pytest

from vitbook.plots import trends

PANELS = {
    "a": {"one": [(10, 0.5, 0.4, 0.6), (1, 0.2, 0.1, 0.3)], "null": [(1, 0.1), (10, 0.1)]},
    "b": {"two": [(3, 0.9)], "one": [(3, 0.8)], "none": []},
}


def test_a_curve_looks_the_same_in_all_panels_and_is_named_once():
    figure = trends(PANELS, "A claim", x_label="cost", y_label="score", grey=["null"])
    first, second = figure.axes
    colors = [{line.get_label(): line.get_color() for line in a.lines} for a in (first, second)]
    assert colors[0]["one"] == colors[1]["one"] != colors[1]["two"]
    assert colors[0]["null"] == "#555555"
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.texts] == ["one", "null", "two"]
    assert first.get_xscale() == "log" and second.get_title() == "b"
    assert figure._suptitle.get_text() == "A claim"


def test_points_are_drawn_in_order_with_their_intervals():
    figure = trends({"": {"one": PANELS["a"]["one"]}}, "t", x_label="x", y_label="y", log_x=False)
    curve, *ends = figure.axes[0].lines
    assert curve.get_xdata().tolist() == [1, 10] and curve.get_ydata().tolist() == [0.2, 0.5]
    assert [list(line.get_ydata()) for line in ends] == [[0.1, 0.3], [0.4, 0.6]]


@pytest.mark.parametrize(
    ("places", "words"), [((10, 1000), {"100", "1,000"}), ((0.25, 4), {"0.25", "0.5", "2"})]
)
def test_a_logarithmic_axis_has_plain_numbers(places, words):
    points = [(place, 0.5) for place in places]
    figure = trends({"": {"one": points}}, "t", x_label="x", y_label="y")
    figure.canvas.draw()
    assert words <= {label.get_text() for label in figure.axes[0].get_xticklabels()}


def test_more_curves_than_colours_are_told_apart():
    curves = {str(i): [(1, i)] for i in range(40)}
    figure = trends({"": curves}, "t", x_label="x", y_label="y", grey=list("0123"))
    looks = [(line.get_color(), line.get_marker()) for line in figure.axes[0].lines]
    assert len(set(looks[4:])) == 36 and len(set(looks[:4])) == 4


def test_whole_numbers_have_whole_ticks():
    points = [(layer, 0.1 * layer) for layer in range(13)]
    axis = trends({"": {"one": points}}, "t", x_label="x", y_label="y", log_x=False).axes[0]
    assert all(tick == round(tick) for tick in axis.get_xticks())


def test_scores_on_a_logarithm_have_plain_numbers():
    points = [(64, 0.5), (128, 3.0), (256, 120.0, 100.0, 150.0)]
    figure = trends({"": {"one": points}}, "t", x_label="x", y_label="y", log_y=True)
    (axis,) = figure.axes
    assert axis.get_yscale() == "log"
    figure.canvas.draw()
    assert {"1", "10", "100"} <= {label.get_text() for label in axis.get_yticklabels()}


def test_a_logarithm_within_an_octave_has_ticks():
    figure = trends({"": {"one": [(1, 1.05), (8, 1.3)]}}, "t", x_label="x", y_label="y", log_y=True)
    low, high = figure.axes[0].get_ylim()
    assert sum(low <= tick <= high for tick in figure.axes[0].get_yticks()) >= 2


def test_a_level_is_named_below_where_no_curve_crosses_its_name():
    points = {"": {"one": [(1, 0.1), (10, 0.9)]}}
    figure = trends(points, "t", x_label="x", y_label="y", levels={"chance": 0.5})
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["one", "chance"]
    assert not figure.axes[0].texts
