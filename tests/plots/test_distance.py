import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from vitbook import plots

DISTANCES = {
    "trained": torch.arange(48.0).reshape(12, 4),
    "random": torch.full((12, 4), 40.0, dtype=torch.bfloat16),
    "small": torch.rand(3, 2),
}


def dots(axis):
    """ "layers heads", as drawn."""
    drawn = [line for line in axis.lines if line.get_marker() == "o"]
    assert all(line.get_xdata().tolist() == drawn[0].get_xdata().tolist() for line in drawn)
    return np.stack([line.get_ydata() for line in drawn], axis=1)


def test_every_head_is_a_dot_over_its_layer_and_every_layer_has_its_mean():
    figure = plots.distance_by_layer(DISTANCES, 40.5, "A claim")
    assert figure.get_suptitle() == "A claim"
    assert [axis.get_title() for axis in figure.axes] == list(DISTANCES)
    for axis, values in zip(figure.axes, DISTANCES.values(), strict=True):
        assert dots(axis) == pytest.approx(values.float().numpy())
        (means,) = [line for line in axis.lines if line.get_marker() == "_"]
        assert means.get_xdata().tolist() == list(range(1, len(values) + 1))
        assert means.get_ydata() == pytest.approx(values.float().mean(1).numpy())
    assert not plt.get_fignums()


def test_panels_share_a_scale_from_nought_on_which_uniform_is_a_line_with_its_name():
    figure = plots.distance_by_layer(DISTANCES, 60, "t", unit="patches", quantity="far")
    bottoms, tops = zip(*(axis.get_ylim() for axis in figure.axes), strict=True)
    assert len(set(tops)) == 1 and tops[0] > 60 and -2 < bottoms[0] <= 0
    for axis in figure.axes:
        (level,) = [line for line in axis.lines if line.get_linestyle() == "--"]
        assert set(level.get_ydata()) == {60}
    assert [text.get_text() for text in figure.axes[-1].texts] == ["even:\n60 patches"]
    assert figure.axes[0].get_ylabel() == "far (patches)"
    assert figure.axes[0].get_xticks().tolist() == [1, 4, 8, 12]
    assert figure.axes[2].get_xticks().tolist() == [1, 2, 3]


def test_a_null_is_crosses_in_its_model_s_panel_and_a_level_is_a_named_line():
    null = {"small": torch.full((3, 4), 70.0)}
    figure = plots.distance_by_layer(DISTANCES, 40, "t", null=null, levels={"near": 20})
    crosses = [
        [line.get_ydata() for line in axis.lines if line.get_marker() == "x"]
        for axis in figure.axes
    ]
    assert [len(heads) for heads in crosses] == [0, 0, 4]
    assert np.stack(crosses[2], axis=1) == pytest.approx(null["small"].numpy())
    assert figure.axes[0].get_ylim()[1] > 70
    for axis in figure.axes:
        (level,) = [line for line in axis.lines if line.get_linestyle() == ":"]
        assert set(level.get_ydata()) == {20}
    named = [text.get_text() for text in figure.axes[-1].texts]
    assert named == ["even:\n40 px", "near:\n20 px"]


def test_one_model_of_one_layer_and_a_head_without_a_distance():
    values = torch.tensor([[3.0, torch.nan]])
    figure = plots.distance_by_layer({"one": values}, 2.0, "t")
    assert figure.axes[0].get_ylim()[1] == pytest.approx(3 * 1.12)
    figure.canvas.draw()
