import pytest
import torch
from torch import nn

from vitbook.measure import memory_held, peak_memory


def test_peak_memory_is_the_most_held_at_once():
    def twice():
        for _ in range(2):
            torch.zeros(1_000_000)

    assert peak_memory(twice, "cpu") == pytest.approx(4_000_000, rel=0.01)
    assert peak_memory(lambda: (torch.zeros(10**6), torch.zeros(10**6)), "cpu") == pytest.approx(
        8_000_000, rel=0.01
    )


def test_what_stands_is_weights_buffers_and_the_two_moments():
    model = nn.Sequential(nn.Linear(10, 10, bias=False), nn.BatchNorm1d(10))
    numbers, moving = 100 + 10 + 10, 10 + 10
    weights = 4 * (numbers + moving) + 8  # one whole number counts batches
    assert memory_held(model) == weights
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    assert memory_held(model, optimizer) == weights
    model(torch.randn(4, 10)).sum().backward()
    optimizer.step()
    steps = 4 * 3  # one for each of three tensors
    assert memory_held(model, optimizer) == weights + 2 * 4 * numbers + steps
