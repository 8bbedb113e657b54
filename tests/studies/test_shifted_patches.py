import pytest
import torch

from vitbook.studies.shifted_patches import others_in_use


def test_known_maps():
    even = torch.full((2, 1, 5, 5), 1 / 5)
    one = torch.eye(5).roll(1, 1).expand(2, 1, 5, 5)
    two = (one + torch.eye(5).roll(2, 1)) / 2
    maps = torch.cat([even, one, two], dim=1)
    assert others_in_use(maps).tolist() == pytest.approx([1, 1 / 4, 2 / 4])


def test_the_weight_on_oneself_does_not_count():
    weights = torch.rand(2, 3, 6, 6).softmax(-1)
    own = torch.eye(6, dtype=torch.bool)
    masked = weights.masked_fill(own, 0)
    masked = masked / masked.sum(-1, keepdim=True)
    mostly = 0.9 * torch.eye(6) + 0.1 * weights
    assert torch.allclose(others_in_use(masked), others_in_use(weights))
    assert torch.allclose(others_in_use(mostly), others_in_use(weights))


def test_sharper_is_less():
    scores = torch.randn(2, 3, 6, 6)
    used = [others_in_use((sharp * scores).softmax(-1)) for sharp in (0.5, 1, 2)]
    assert (used[0] > used[1]).all() and (used[1] > used[2]).all()
