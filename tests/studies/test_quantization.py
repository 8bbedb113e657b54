import pytest
import torch
import torch.nn.functional as F
from torch import nn

import vitbook
from vitbook.layers import QuantizedLinear
from vitbook.studies.quantization import channel_ranges, count_oscillations


def layer():
    plain = nn.Linear(3, 1, bias=False)
    with torch.no_grad():
        plain.weight.copy_(torch.tensor([[1.0, 0.4, 0.0]]))  # the first holds the step at 1
    return QuantizedLinear(plain, 2)


def move(quantized, path):
    """The second weight along a path, a forward pass at each place."""
    for value in path:
        with torch.no_grad():
            quantized.weight[0, 1] = value
        quantized(torch.rand(2, 3))


def test_to_and_fro_is_counted_by_hand(monkeypatch):
    quantized = layer()
    monkeypatch.setattr("vitbook.studies.quantization.MEMORY", 0.5)
    with count_oscillations() as found:
        move(quantized, [0.4, 0.6, 0.4, 0.6, 0.6])  # codes 0 1 0 1 1: turned round twice
    assert found.steps == 5
    expected = 0.0
    for turned in (0, 1, 1, 0):
        expected += 0.5 * (turned - expected)
    torch.testing.assert_close(found.frequency[0], torch.tensor([[0.0, expected, 0.0]]))
    assert found.share() == pytest.approx(1 / 3)


def test_going_on_in_one_direction_is_no_oscillation():
    quantized = layer()
    with count_oscillations() as found:
        move(quantized, [-0.9, 0.0, 0.9])  # codes -1 0 1
    assert not any(each.any() for each in found.frequency)


def test_evaluation_is_not_counted_and_nothing_outlives_the_block():
    quantized = layer()
    with count_oscillations() as found:
        with torch.no_grad():
            quantized(torch.rand(2, 3))
        move(quantized.eval(), [0.6, 0.4, 0.6])
    assert not found.frequency
    with count_oscillations() as later:
        pass
    move(quantized.train(), [0.6, 0.4, 0.6])
    assert later.steps == 0


@torch.no_grad()
def test_ranges_are_the_largest_values_of_each_channel():
    torch.manual_seed(0)
    model = vitbook.create_model("vit_micro_patch2_8").eval()
    seen = torch.rand(5, 1, 8, 8)
    found = channel_ranges(model, seen, batch_size=2)
    assert {place: len(each) for place, each in found.items()} == {
        "stream": 9, "norm": 9, "gelu": 4,
    }  # fmt: skip
    last = model.features(seen).abs().amax(dim=(0, 1))
    torch.testing.assert_close(found["norm"][-1], last)
    first = model.embed(seen).abs().amax(dim=(0, 1))
    torch.testing.assert_close(found["stream"][0], first)
    hidden = F.gelu(model.encoder.blocks[0].mlp.expand(
        model.encoder.blocks[0].norm2(model.embed(seen) + model.encoder.blocks[0].attention(
            model.encoder.blocks[0].norm1(model.embed(seen))))))  # fmt: skip
    torch.testing.assert_close(found["gelu"][0], hidden.abs().amax(dim=(0, 1)))
