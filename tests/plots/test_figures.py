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


def test_similarity_maps_have_one_scale_through_zero_and_its_tiles_apart():
    maps = {name: torch.full((4, 6), 0.1) for name in ("a", "b", "c")}
    figure = plots.similarity_maps(maps, "t", tile=(2, 3))
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


def test_each_image_has_its_line_and_its_scale():
    images = {name: torch.zeros(3, 8, 8, dtype=torch.uint8) for name in ("one", "two", "three")}
    maps = {"rollout": torch.rand(3, 2, 4), "random weights": 2 * torch.rand(3, 2, 4)}
    figure = plots.maps_beside_images(images, maps, "A claim")
    assert figure.get_suptitle() == "A claim"
    axes = figure.axes
    assert len(axes) == 9
    assert [axes[i].get_ylabel() for i in (0, 3, 6)] == ["one", "two", "three"]
    assert [axes[i].get_title() for i in (1, 2)] == ["rollout", "random weights"]
    for line in range(3):
        drawn = [axes[3 * line + column].images[0] for column in (1, 2)]
        top = max(float(each[line].max()) for each in maps.values())
        assert [image.get_clim() for image in drawn] == [(0, pytest.approx(top))] * 2
        assert (drawn[0].get_array() == maps["rollout"][line].numpy()).all()
    figure = plots.maps_beside_images(images, {"none": torch.zeros(3, 2, 2)}, "Nothing")
    assert figure.axes[1].images[0].get_clim() == (0, 1)


def test_a_map_for_each_head_in_a_line_for_each_layer():
    maps = [torch.rand(3, 4, 4), torch.rand(2, 4, 4)]
    image = torch.zeros(3, 8, 8, dtype=torch.uint8)
    figure = plots.head_sheet(maps, "All heads", image)
    assert len(figure.axes) == 1 + 3 + 2
    assert [axis.get_ylabel() for axis in figure.axes if axis.get_ylabel()] == ["1", "2"]
    assert figure._suptitle.get_text() == "All heads"
    assert len(plots.head_sheet(maps, "All heads").axes) == 5
