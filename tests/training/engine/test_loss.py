import math

import pytest
import torch

from vitbook.training.engine.loss import cross_entropy


def test_two_heads_learn_alike():
    # shares 1/2, 1/2 and 3/4, 1/4: the label is the first class
    even, sure = torch.zeros(1, 2), torch.tensor([[math.log(3), 0.0]])
    label = torch.tensor([0])
    assert cross_entropy(even, label).item() == pytest.approx(math.log(2))
    expected = (math.log(2) + math.log(4 / 3)) / 2
    assert cross_entropy((even, sure), label).item() == pytest.approx(expected)


def test_smoothing_and_shares_of_classes():
    logits = torch.tensor([[math.log(3), 0.0]])
    by_hand = 0.95 * math.log(4 / 3) + 0.05 * math.log(4)
    smoothed = cross_entropy(logits, torch.tensor([0]), 0.1)
    assert smoothed.item() == pytest.approx(by_hand)
    assert cross_entropy(logits, torch.tensor([[0.95, 0.05]])).item() == pytest.approx(by_hand)
