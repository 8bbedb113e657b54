import copy
from importlib.util import find_spec

import pytest
import torch
from torch import nn

import vitbook
from vitbook import datasets
from vitbook.errors import UnknownNameError
from vitbook.layers import QuantizedLinear
from vitbook.studies.quantization.schemes import (
    SCHEMES,
    QuantizationError,
    quantize_model,
    stored_bytes,
)
from vitbook.training import evaluate

pytestmark = pytest.mark.skipif(find_spec("torchao") is None, reason="torchao is not installed")
RUNS_HERE = [name for name, scheme in SCHEMES.items() if not scheme.packed]


@pytest.fixture(scope="module")
def learned():
    return vitbook.load_checkpoint("digits-vit_micro_patch2_8-digits-seed0").model


def inputs(n=64):
    return datasets.normalize(datasets.load("digits", "test").images[:n])


@torch.no_grad()
def error(model, scheme):
    return (quantize_model(model, scheme)(inputs()) - model(inputs())).norm().item()


@pytest.mark.parametrize("scheme", RUNS_HERE)
def test_the_model_itself_is_not_changed(learned, scheme):
    before = copy.deepcopy(learned.state_dict())
    small = quantize_model(learned, scheme)
    assert all(torch.equal(before[name], value) for name, value in learned.state_dict().items())
    assert type(small.encoder.blocks[0].mlp.expand.weight) is not nn.Parameter
    assert torch.equal(small.tokenizer.projection.weight, learned.tokenizer.projection.weight)


def test_finer_grids_lose_less(learned):
    assert error(learned, "int8_weights") < error(learned, "int4_weights")
    assert error(learned, "int8_weights") <= error(learned, "int8_weights_tensor")
    assert error(learned, "int8_weights") <= error(learned, "int8_dynamic")
    four, three, two = (error(learned, f"int{bits}_weights_group") for bits in (4, 3, 2))
    assert four < three < two


def test_eight_bits_keep_the_accuracy(learned):
    held_out = datasets.load("digits", "test")
    exact = evaluate(learned, held_out)
    for scheme in ("int8_weights", "int8_dynamic"):
        assert abs(evaluate(quantize_model(learned, scheme), held_out) - exact) < 0.01


@pytest.mark.parametrize("scheme", ["int8_weights_tensor", "int8_weights", "int8_dynamic"])
def test_torchao_keeps_the_law(learned, scheme):
    """A weight moves by at most half a step; at the positive end by one, where the grid ends."""
    for name, layer in quantize_model(learned, scheme).named_modules():
        if type(layer) is nn.Linear:
            exact = learned.get_submodule(name).weight
            moved = (layer.weight.dequantize() - exact).abs() / layer.weight.scale
            inside = exact / layer.weight.scale <= 127
            assert moved[inside].max() <= 0.5 + 1e-3 and moved.max() <= 1 + 1e-3


def test_bytes_by_hand():
    model = nn.Sequential(nn.Linear(64, 10), nn.LayerNorm(10), nn.Conv2d(1, 2, 3, bias=False))
    rest = 4 * (10 + 20 + 18)
    assert stored_bytes(model) == 4 * 640 + rest
    assert stored_bytes(model, "int8_weights_tensor") == 640 + 4 + rest
    assert stored_bytes(model, "int8_weights") == 640 + 40 + rest
    assert stored_bytes(model, "int4_weights") == 320 + 40 + rest
    assert stored_bytes(model, "int3_weights_group") == 240 + 4 * 20 + rest


def test_layers_made_of_linear_ones_are_neither_counted_nor_quantized():
    model = nn.Sequential(nn.Linear(32, 32), QuantizedLinear(nn.Linear(32, 4), 8))
    small, tokens = quantize_model(model, "int4_weights_group"), torch.rand(2, 32)
    assert torch.equal(small[1].weight, model[1].weight)
    assert (small(tokens) - model(tokens)).abs().max() < 0.5
    assert stored_bytes(model, "int4_weights_group") == 512 + 4 * 32 + 4 * (32 + 128 + 4)


def test_what_is_shared_is_stored_once():
    model = nn.Sequential(nn.Linear(32, 32, bias=False), nn.GELU())
    model.append(model[0])
    assert stored_bytes(model) == 4 * 32 * 32
    assert stored_bytes(model, "int8_weights") == 32 * 32 + 4 * 32


@pytest.mark.parametrize(
    ("make", "scheme", "told"),
    [
        (lambda it: it, "int8_weight", "did you mean int8_weights"),
        (lambda it: it, "int4_packed", r"torchao refuses int4_packed on cpu \(.*; use"),
        (lambda it: nn.Linear(48, 2), "int4_weights_group", "48 inputs, which are no multiple of"),
        (lambda it: nn.Conv2d(1, 1, 1), "int8_weights", "Conv2d has no linear layer"),
        (lambda it: quantize_model(it, "int8_weights"), "int4_weights", "is quantized already, a"),
        (lambda it: copy.deepcopy(it).double(), "int8_weights", r"is float64: .*model\.float"),
    ],
)
def test_what_cannot_be_quantized(learned, make, scheme, told):
    with pytest.raises((UnknownNameError, QuantizationError), match=told):
        quantize_model(make(learned), scheme)
