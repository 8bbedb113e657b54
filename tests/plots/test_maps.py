import pytest
import torch

from vitbook.plots import maps_beside_images

IMAGES = {name: torch.zeros(3, 8, 8, dtype=torch.uint8) for name in ("one", "two", "three")}


def test_each_image_has_its_line_and_its_scale():
    maps = {"rollout": torch.rand(3, 2, 4), "random weights": 2 * torch.rand(3, 2, 4)}
    figure = maps_beside_images(IMAGES, maps, "A claim")
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


def test_a_map_of_zeros_is_drawn():
    figure = maps_beside_images(IMAGES, {"none": torch.zeros(3, 2, 2)}, "Nothing")
    assert figure.axes[1].images[0].get_clim() == (0, 1)


def test_another_number_of_maps():
    with pytest.raises(ValueError, match="2 maps of rollout: expected 3, one an image"):
        maps_beside_images(IMAGES, {"rollout": torch.rand(2, 2, 2)}, "A claim")
