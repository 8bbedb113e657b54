import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

import vitbook
from vitbook.analysis import capture_attention
from vitbook.studies import attention_distance as study


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


def test_the_next_patch_in_a_direction_is_counted():
    maps = torch.zeros(2, 2, 7, 7)  # a class token, and 2 x 3 patches
    for query, key in ((1, 4), (2, 5), (3, 6), (4, 5), (5, 6), (6, 1)):  # three look down
        maps[:, 0, query, [key, query, 0]] = torch.tensor([0.2, 0.3, 0.5])  # itself is left out
    maps[:, 1, :, 6] = 1  # all look at the last patch
    found = study.next_patch(maps, (2, 3))
    down, right = found[0, 2, 1].item(), found[0, 1, 2].item()
    assert (down, right) == pytest.approx((3 / 6, 2 / 6)) and found[0].sum() == pytest.approx(5 / 6)
    assert found[1, 1, 2] == found[1, 2, 1] == found[1, 2, 2] == pytest.approx(1 / 6)


def test_patches_in_use_are_all_if_even_and_one_if_one_has_all():
    even, one = torch.full((1, 1, 10, 10), 1 / 10), torch.zeros(1, 1, 10, 10)
    one[..., 4] = 1
    assert study.patches_in_use(torch.cat([even, one], 1)).tolist() == pytest.approx([9, 1])


def test_shuffled_patches_are_the_same_patches():
    torch.manual_seed(0)
    images = torch.rand(2, 3, 8, 12)
    mixed = study.shuffled(images, 4)
    assert mixed.shape == images.shape and not torch.equal(mixed, images)
    assert torch.equal(mixed.flatten(1).sort(1).values, images.flatten(1).sort(1).values)
    assert any(torch.equal(mixed[0, :, :4, :4], images[0, :, r : r + 4, c : c + 4])
               for r in (0, 4) for c in (0, 4, 8))  # fmt: skip


def test_the_evidence_has_every_layer_of_every_model():
    lines = {table.title: table.lines for table in study.evidence().tables}
    assert [len(each) for each in lines.values()] == [12, 12, 12, 6, 6]
    near = [sum(int(line["near heads"]) for line in each) for each in lines.values()]
    assert near[0] > 10 and near[2:] == [0, 0, 0]
