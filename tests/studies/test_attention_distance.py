import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

import vitbook
from vitbook.analysis import capture_attention
from vitbook.studies import attention_distance as study

PARTS = ("offset", "place", "rest")


def titles(figure):
    return [axis.get_title() for axis in figure.axes if axis.images and axis.get_title()]


def test_each_profile_has_its_panel_one_scale_and_offsets_from_the_middle():
    profiles = {"near": torch.rand(5, 7), "none": torch.zeros(5, 7)}
    figure = study.offset_profiles(profiles, "A claim")
    assert figure.get_suptitle() == "A claim" and titles(figure) == ["near", "none"]
    drawn = [axis.images[0] for axis in figure.axes if axis.get_title()]
    assert len({image.get_clim() for image in drawn}) == 1
    assert drawn[0].get_extent() == [-3.5, 3.5, 2.5, -2.5]
    assert np.allclose(drawn[0].get_array(), profiles["near"].clamp_min(1 / 3200))
    figure.canvas.draw()
    assert not plt.get_fignums()


def test_the_sheet_has_a_column_a_layer_and_the_largest_share_on_top():
    weight = torch.arange(1.0, 7)[:, None, None].expand(6, 3, 3).reshape(2, 3, 3, 3)
    shares = torch.tensor([[0.1, 0.7, -0.001], [0.5, 0.2, 0.3]])
    figure = study.offset_sheet(weight, shares, "All heads")
    by_line = ["2: 70 %", "1: 50 %", "1: 10 %", "3: 30 %", "3: 0 %", "2: 20 %"]
    assert titles(figure) == by_line
    middle = [float(axis.images[0].get_array()[1, 1]) for axis in figure.axes[:6]]
    assert middle == [2, 4, 1, 6, 3, 5]
    assert [axis.get_xlabel() for axis in figure.axes[4:6]] == ["layer 1", "layer 2"]


def test_shares_are_stacked_to_one_and_less_than_nothing_is_nothing():
    shares = torch.tensor([[0.5, 0.2, 0.3], [-0.02, 0.5, 0.52]])
    figure = study.stacked_shares({"a": shares, "b": shares[:1]}, PARTS, "Parts")
    assert [axis.get_title() for axis in figure.axes] == ["a", "b"]
    bars = [[bar.get_height() for bar in group] for group in figure.axes[0].containers]
    assert np.sum(bars, axis=0) == pytest.approx([1, 1])
    assert [group[1] for group in bars] == pytest.approx([0, 0.5 / 1.02, 0.52 / 1.02])
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["offset", "place", "rest"]
    colors = {group[0].get_facecolor() for group in figure.axes[0].containers}
    assert len(colors) == 3


def test_the_profile_is_the_mean_over_pairs():
    maps = torch.randn(3, 6, 6).softmax(-1)
    weight, count = study.offset_profile(maps, (2, 3))
    assert weight.shape == (3, 3, 5)
    assert count.tolist() == [[1, 2, 3, 2, 1], [2, 4, 6, 4, 2], [1, 2, 3, 2, 1]]
    # Two below-left pairs by hand: (0, 1) -> (1, 0) and (0, 2) -> (1, 1).
    torch.testing.assert_close(weight[:, 2, 1], (maps[:, 1, 3] + maps[:, 2, 4]) / 2)
    torch.testing.assert_close(weight[:, 1, 2], maps.diagonal(dim1=-2, dim2=-1).mean(-1))
    assert (weight * count).sum().item() == pytest.approx(18, rel=1e-5)


def test_the_profiles_of_a_model_are_those_of_its_maps():
    model, images = vitbook.create_model("vit_micro_patch2_8").eval(), torch.rand(5, 1, 8, 8)
    with torch.no_grad(), capture_attention(model) as maps:
        model(images)
    profiles = study.head_offset_profiles(model, images, batch_size=2)
    for layer, weights in enumerate(maps.values()):
        profile = study.offset_profile(weights[:, :, 1:, 1:].mean(0), (4, 4))
        torch.testing.assert_close(profiles.weight[layer], profile.weight)
        assert torch.equal(profiles.count, profile.count)
