import pytest
import torch

from vitbook.studies.feature_maps import TWO_SIDED, channel_lines

IMAGE = torch.zeros(1, 8, 8, dtype=torch.uint8)


def test_each_line_has_one_scale_around_zero():
    lines = {"small": torch.randn(3, 4, 4), "large": 50 * torch.randn(3, 2, 2)}
    figure = channel_lines(lines, "A claim", image=IMAGE, scales={"large": 7})
    assert figure.get_suptitle() == "A claim" and len(figure.axes) == 8
    assert [figure.axes[i].texts[0].get_text() for i in (0, 4)] == ["small", "large"]
    for first, name, top in ((1, "small", float(lines["small"].abs().max())), (5, "large", 7)):
        for channel in range(3):
            drawn = figure.axes[first + channel].images[0]
            assert drawn.get_clim() == (pytest.approx(-top), pytest.approx(top))
            assert (drawn.get_array() == lines[name][channel].numpy()).all()


def test_what_is_dead_is_blank_framed_and_named():
    maps = torch.randn(3, 4, 4)
    maps[1] = 0
    figure = channel_lines({"layer": maps}, "A claim", marks={"layer": {1: "dead"}})
    assert [axis.get_xlabel() for axis in figure.axes] == ["", "dead", ""]
    widths = [axis.spines["top"].get_linewidth() for axis in figure.axes]
    assert widths[1] > max(widths[0], widths[2])
    red, green, blue, _ = TWO_SIDED(0.5)
    assert min(red, green, blue) > 0.9


def test_a_line_of_zeros_is_drawn():
    figure = channel_lines({"layer": torch.zeros(2, 2, 2)}, "Nothing")
    assert figure.axes[0].images[0].get_clim() == (-1, 1)
