import matplotlib.pyplot as plt
import pytest
import torch

from vitbook import plots

IMAGE = torch.randint(0, 256, (3, 8, 8), dtype=torch.uint8)


def panels(figure):
    """Axes that show something, colour bars left out."""
    return [axis for axis in figure.axes if axis.get_label() != "<colorbar>" and axis.axison]


def test_every_figure_carries_its_claim_and_is_shown_once():
    figure = plots.image_grid({"a": IMAGE, "grey": IMAGE[:1]}, "Two images")
    assert figure.get_suptitle() == "Two images"
    assert [axis.get_title() for axis in panels(figure)] == ["a", "grey"]
    assert not plt.get_fignums()  # left open, a notebook would show it a second time


def test_heat_maps_share_one_scale_that_starts_at_zero():
    maps = {"low": torch.full((2, 3), 0.1), "high": torch.full((2, 3), 0.5)}
    figure = plots.heat_maps(maps, "t", image=IMAGE, columns=2)
    assert len(panels(figure)) == 3
    limits = {axis.images[0].get_clim() for axis in panels(figure)[1:]}
    assert limits == {(0, 0.5)}


def test_likeness_has_one_scale_through_zero_and_its_tiles_apart():
    maps = {name: torch.full((4, 6), 0.1) for name in ("a", "b", "c")}
    figure = plots.likeness(maps, "t", tile=(2, 3))
    assert [axis.get_title() for axis in panels(figure)] == ["a", "b", "c"]
    for axis in panels(figure):
        assert axis.images[0].get_clim() == (-1, 1)
        assert [line.get_ydata()[0] for line in axis.lines[:1]] == [1.5]
        assert [line.get_xdata()[0] for line in axis.lines[1:]] == [2.5]


@pytest.mark.parametrize("log_x", [False, True])
def test_lines_draw_what_they_are_given(log_x):
    figure = plots.lines(
        [1, 10], {"up": [0, 1], "down": [1, 0]}, "t", x_label="x", y_label="y",
        log_x=log_x, levels={"half": 0.5}, mark_x={"here": 5},
    )  # fmt: skip
    (axis,) = figure.axes
    assert [line.get_ydata().tolist() for line in axis.lines[:2]] == [[0, 1], [1, 0]]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["up", "down", "half"]
    assert axis.get_xscale() == ("log" if log_x else "linear")


def test_ratios_stand_as_far_above_one_as_below_and_are_written_plainly():
    figure = plots.lines(
        [1, 2, 3], {"a": [0.25, 1, 4]}, "t", x_label="x", y_label="y", ratio_y=True
    )
    (axis,) = figure.axes
    figure.canvas.draw()
    told = [label.get_text() for label in axis.get_yticklabels()]
    assert {"1/4", "1/2", "1", "2", "4"} <= set(told)
    below, one, above = axis.transData.transform([(1, 0.25), (1, 1), (1, 4)])[:, 1]
    assert above - one == pytest.approx(one - below)
    with pytest.raises(ValueError, match="expected ratios, with ratio_y"):
        plots.lines([1], {"a": [0]}, "t", x_label="x", y_label="y", ratio_y=True)


def test_lines_over_whole_numbers_have_whole_ticks():
    figure = plots.lines([1, 2, 3, 4], {"a": [1, 2, 3, 4]}, "t", x_label="layer", y_label="y")
    ticks = figure.axes[0].get_xticks()
    assert [tick for tick in ticks if 1 <= tick <= 4] == [1, 2, 3, 4]


def test_words_on_the_axis_stay_words():
    figure = plots.lines(["before", "after"], {"a": [1, 2]}, "t", x_label="", y_label="y")
    figure.canvas.draw()
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["before", "after"]


def test_no_line_is_left_out_however_many_there_are():
    many = {f"line {i}": [i, i] for i in range(8)}
    levels = {f"level {i}": i for i in range(5)}
    figure = plots.lines([0, 1], many, "t", x_label="x", y_label="y", levels=levels)
    assert len(figure.axes[0].lines) == 8 + 5
