"""Channels that repeat each other, and channels that do not."""

import pytest
import torch

from vitbook.analysis import effective_channels


def test_independent_channels_count_all_and_copies_count_once():
    own = torch.linalg.qr(torch.randn(64, 8, generator=torch.manual_seed(0))).Q
    own = torch.linalg.qr(own - own.mean(0)).Q  # no two have anything in common
    assert effective_channels(own) == pytest.approx(8)
    assert effective_channels(torch.cat([own, -3 * own], dim=1)) == pytest.approx(8)


def test_neither_units_nor_shape_nor_a_constant_channel_matter():
    outputs = torch.randn(4, 9, 6, generator=torch.manual_seed(1))
    found = effective_channels(outputs)
    assert 1 < found < 6
    assert effective_channels(outputs * torch.arange(1, 7) + 5) == pytest.approx(found)
    assert effective_channels(outputs.flatten(0, 1)) == pytest.approx(found)
    constant = torch.cat([outputs, torch.ones(4, 9, 1)], dim=-1)
    assert effective_channels(constant) == pytest.approx(found)


@pytest.mark.parametrize(
    ("outputs", "what"),
    [
        (torch.ones(1, 4), "1 observations"),
        (torch.full((5, 4), torch.nan), "finite numbers"),
        (torch.ones(5, 4), "never change"),
    ],
)
def test_what_has_no_answer_is_refused(outputs, what):
    with pytest.raises(ValueError, match=what):
        effective_channels(outputs)


def test_neither_tiny_nor_huge_channels_are_lost():
    outputs = torch.randn(50, 6, generator=torch.manual_seed(2), dtype=torch.float64)
    found = effective_channels(outputs)
    mixed = torch.tensor([1e-20, 1, 1e15, 1, 1e-300, 1e300], dtype=torch.float64)
    for units in (1e-200, 1e200, mixed):
        assert effective_channels(outputs * units) == pytest.approx(found)


def test_a_constant_that_a_mean_would_round_is_one():
    tenths = torch.full((1000, 5), 0.1, dtype=torch.float64)
    with pytest.raises(ValueError, match="5 channels that never change"):
        effective_channels(tenths)
    with pytest.raises(ValueError, match="0 channels that never change"):
        effective_channels(torch.empty(5, 0))
