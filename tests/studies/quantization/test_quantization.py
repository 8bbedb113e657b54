from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import vitbook
from vitbook import datasets, runs
from vitbook.layers import QuantizedLinear
from vitbook.studies.quantization.activations import channel_ranges
from vitbook.studies.quantization.costs import quantize
from vitbook.studies.quantization.oscillation import count_oscillations
from vitbook.studies.quantization.schemes import SCHEMES
from vitbook.training import evaluate, save_checkpoint

DIGITS = "digits-vit_micro_patch2_8-digits-seed0"


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
    monkeypatch.setattr("vitbook.studies.quantization.oscillation.MEMORY", 0.5)
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


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Both measurements of a model on 60 digits."""
    pytest.importorskip("torchao")
    return quantize(
        dataset="digits", model=DIGITS, num_images=60, rounds=2,
        out=tmp_path_factory.mktemp("runs"), threads=1, device="cpu",
    )  # fmt: skip


def test_a_row_for_each_scheme_and_why_one_is_refused(measured):
    rows = {row["scheme"]: row for row in measured[0].rows}
    assert measured[0].kind == "quantization" and list(rows) == ["float32", *SCHEMES]
    refused = {name: row["refused"] for name, row in rows.items() if row["refused"]}
    assert list(refused) == ["int4_packed"] and "torchao refuses" in refused["int4_packed"]
    assert rows["int4_packed"]["accuracy"] is None and rows["int4_packed"]["time"] is None
    assert rows["float32"]["difference"] == [0, 0, 0] and rows["float32"]["time"] == [1, 1, 1]
    assert rows["float32"]["megabytes"] > 3 * rows["int8_weights"]["megabytes"]
    for name, row in rows.items():
        if name not in refused:
            low, high = row["difference"][1:]
            assert row["accuracy"][1] <= row["accuracy"][0] <= row["accuracy"][2]
            assert low <= row["difference"][0] <= high and row["time"][0] > 0


def test_the_exact_accuracy_is_evaluate_s(measured):
    row = measured[0]
    drawn = torch.randperm(355, generator=torch.Generator().manual_seed(0))[:60]
    held_out = datasets.load("digits", "test")
    some = replace(held_out, images=held_out.images[drawn], labels=held_out.labels[drawn])
    exact = evaluate(vitbook.load_checkpoint(DIGITS).model, some)
    assert row.rows[0]["accuracy"][0] == pytest.approx(exact, abs=1e-4)
    assert row.settings["images"] == 60 and row.settings["threads"] == 1


def test_each_place_is_rounded_by_itself(measured):
    assert measured[1].kind == "rounded_activations" and len(measured[1].rows) == 4 * 3 * 3
    assert {row["place"] for row in measured[1].rows} == {"stream", "norm", "softmax", "gelu"}
    eight = [row for row in measured[1].rows if row["bits"] == 8 and row["steps"] == "token"]
    assert all(row["same_answers"] > 0.95 for row in eight)


def test_a_model_without_activations_to_round_keeps_its_first_measurement(tmp_path):
    pytest.importorskip("torchao")
    path = save_checkpoint(tmp_path / "own.safetensors", vitbook.create_model("resnet8_digits"))
    asked = {"dataset": "digits", "model": str(path), "num_images": 4, "rounds": 2, "device": "cpu"}
    with pytest.raises(ValueError, match="nothing was rounded: no stream of ResNet"):
        quantize(**asked, out=tmp_path)
    assert [row.kind for row in runs.measurements(folder=tmp_path)] == ["quantization"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"num_classes": 3}, "has 3 classes, digits 10: expected a model that learned this data"),
        ({"channels": 3}, "with 3 channels, digits has 1: expected a model of square images"),
    ],
)
def test_a_model_of_other_classes_or_images(change, told, tmp_path):
    model = vitbook.create_model("vit_micro_patch2_8", **change)
    path = save_checkpoint(tmp_path / "own.safetensors", model)
    with pytest.raises(ValueError, match=told):
        quantize(dataset="digits", model=str(path), out=tmp_path / "runs")


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
