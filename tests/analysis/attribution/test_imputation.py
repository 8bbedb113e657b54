"""Holes that are filled from their borders."""

import pytest
import torch
from torch import nn

from vitbook.analysis import deletion, impute, insertion

RAMP = torch.linspace(-1, 1, 12)[:, None] * 0.6 + torch.linspace(-1, 1, 10) * 0.3
IMAGES = torch.stack([RAMP, 0.2 - RAMP])[:, None].expand(2, 3, 12, 10)


def test_a_linear_image_is_filled_with_itself():
    gone = torch.zeros(2, 12, 10, dtype=torch.bool)
    gone[0, 2:9, 1:7] = True
    gone[1, 3:4, 3:8] = gone[1, 6:11, 2:4] = True
    assert torch.allclose(impute(IMAGES, gone, noise=0), IMAGES, atol=1e-6)
    torn = torch.where(gone[:, None], 99.0, IMAGES)  # what was there is not looked at
    assert torch.allclose(impute(torn, gone, noise=0), IMAGES, atol=1e-6)


def test_each_pixel_is_the_weighted_mean_of_its_neighbours():
    image = torch.randn(1, 1, 9, 9, generator=torch.Generator().manual_seed(0))
    gone = torch.zeros(1, 9, 9, dtype=torch.bool)
    gone[0, :4, 2:7] = True  # at the border, where some neighbours are not there
    found = impute(image, gone, noise=0)[0, 0]
    for row, column in gone[0].nonzero().tolist():
        total = weights = 0.0
        for r in range(max(row - 1, 0), min(row + 2, 9)):
            for c in range(max(column - 1, 0), min(column + 2, 9)):
                weight = {0: 0, 1: 1 / 6, 2: 1 / 12}[abs(r - row) + abs(c - column)]
                total, weights = total + weight * found[r, c], weights + weight
        assert torch.allclose(found[row, column], total / weights, atol=1e-5)
    assert torch.equal(found[4:], image[0, 0, 4:])


def test_nothing_gone_and_all_gone():
    none, whole = torch.zeros(2, 12, 10, dtype=torch.bool), torch.ones(2, 12, 10, dtype=torch.bool)
    assert torch.equal(impute(IMAGES, none), IMAGES)
    mean = IMAGES.mean((2, 3), keepdim=True).expand_as(IMAGES)
    assert torch.allclose(impute(IMAGES, whole, noise=0), mean, atol=1e-6)


def test_noise_is_added_to_what_was_filled_alone_and_is_the_same_again():
    gone = torch.zeros(2, 12, 10, dtype=torch.bool)
    gone[:, 2:10, 2:8] = True
    noisy = impute(IMAGES, gone, noise=0.1)
    added = (noisy - IMAGES)[gone[:, None].expand_as(IMAGES)]
    assert added.std() == pytest.approx(0.1, rel=0.2)
    assert torch.equal(noisy, impute(IMAGES, gone, noise=0.1))
    assert torch.equal(noisy[:, :, :2], IMAGES[:, :, :2])


class Mean(nn.Module):
    """Class 1 is the surer, the brighter the image."""

    grid_size, num_prefix_tokens = (6, 5), 0

    def forward(self, images):
        bright = images.mean((1, 2, 3))
        return torch.stack([torch.zeros_like(bright), bright], dim=1)


def test_deletion_and_insertion_into_a_filled_image():
    maps = torch.rand(2, 6, 5)
    targets = torch.ones(2, dtype=torch.long)
    go = deletion(Mean(), IMAGES, targets, maps, baseline="imputed", steps=30)
    come = insertion(Mean(), IMAGES, targets, maps.neg(), baseline="imputed", steps=30)
    assert torch.allclose(go.scores[:, :1], come.scores[:, -1:])
    assert torch.allclose(go.scores.flip(1), come.scores, atol=0.01)  # the same holes, backwards


def test_a_hole_of_another_shape():
    with pytest.raises(ValueError, match="noise nan: expected a number from 0 on"):
        impute(torch.rand(2, 3, 12, 9), torch.ones(2, 12, 9).bool(), noise=float("nan"))
    with pytest.raises(ValueError, match=r"gone is bool of \(2, 12, 9\): expected bool of \(2, 12"):
        impute(IMAGES, torch.zeros(2, 12, 9, dtype=torch.bool))
