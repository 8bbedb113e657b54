import pytest
import torch
from torch import nn

import vitbook
from vitbook.measure import count_macs, count_parameters, count_step_macs


def test_parameters_and_macs_by_hand():
    model = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2, bias=False))
    assert count_parameters(model) == 3 * 5 + 5 + 5 * 2
    assert count_macs(model, torch.zeros(4, 3)) == 4 * (3 * 5 + 5 * 2)


def test_macs_of_a_training_step_by_hand():
    model = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2))
    forward, weights, inputs = 3 * 5 + 5 * 2, 3 * 5 + 5 * 2, 5 * 2  # none for the first layer's
    step = count_step_macs(lambda: model(torch.zeros(4, 3)).sum().backward())
    assert step == 4 * (forward + weights + inputs)


def test_macs_of_a_vit_by_hand():
    model = vitbook.create_model("vit_tiny_patch4_32")
    n, d, hidden = 65, 192, 384
    block = n * d * (4 * d + 2 * hidden) + 2 * n * n * d
    expected = 64 * 48 * d + 9 * block + d * 10
    assert count_macs(model.eval(), torch.zeros(1, 3, 32, 32)) == expected


def test_macs_of_vit_b_16_are_the_published_17_6_g():
    with torch.device("meta"):
        model, image = vitbook.create_model("vit_base_patch16_224"), torch.zeros(1, 3, 224, 224)
    assert count_macs(model, image) / 1e9 == pytest.approx(17.6, abs=0.05)
