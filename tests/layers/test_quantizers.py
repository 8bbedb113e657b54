import importlib
import math
from importlib.util import find_spec

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import nn

from vitbook.layers import QuantizedLinear, quantize

BITS = st.integers(2, 8)
MATRICES = arrays(
    "float32", st.tuples(st.integers(1, 5), st.integers(1, 7)),
    elements=st.floats(-1e3, 1e3, width=32),
).map(torch.from_numpy)  # fmt: skip


@given(MATRICES, BITS, st.sampled_from([None, 0, 1]))
def test_no_value_moves_by_more_than_half_a_step(values, bits, dim):
    codes, step = quantize(values, bits, dim)
    error = (codes * step - values).abs()
    assert (error <= step / 2 * (1 + 1e-5) + 1e-35).all()
    assert codes.abs().max() <= 2 ** (bits - 1) - 1


def test_by_hand():
    codes, step = quantize(torch.tensor([[0.0, 0.7, -2.1, 1.0]]), 3)
    assert codes.tolist() == [[0, 1, -3, 1]] and step.item() == pytest.approx(0.7)


@pytest.mark.skipif(find_spec("torchao") is None, reason="torchao is not installed")
def test_it_is_torchao_s_grid_without_clipping():
    torchao = importlib.import_module("torchao.quantization")
    layer = nn.Linear(64, 16)
    codes, step = quantize(layer.weight.detach(), 4, 1)
    exact = torchao.MappingType.SYMMETRIC_NO_CLIPPING_ERR
    torchao.quantize_(
        layer,
        torchao.IntxWeightOnlyConfig(torch.int4, torchao.PerAxis(0), mapping_type=exact),
    )
    their_step = layer.weight.scale
    # Theirs stretches the positive side to 7 and the negative one to -8, whichever needs more.
    assert (their_step <= step * (1 + 1e-6)).all() and (their_step >= step * 7 / 8.01).all()
    same = (their_step - step).abs() < 1e-7
    assert same.any() and torch.equal(layer.weight.qdata[same[:, 0]], codes[same[:, 0]])


def test_a_slice_of_zeros_stays_zero():
    assert quantize(torch.zeros(2, 3), 4, 1).values.equal(torch.zeros(2, 3))


def test_a_layer_computes_with_rounded_weights_and_learns_exact_ones():
    torch.manual_seed(0)
    plain, inputs = nn.Linear(6, 4), torch.rand(3, 6)
    layer = QuantizedLinear(plain, 3)
    rounded = quantize(plain.weight.detach(), 3, 1).values
    torch.testing.assert_close(layer(inputs), F.linear(inputs, rounded, plain.bias))
    layer(inputs).sum().backward()
    torch.testing.assert_close(plain.weight.grad, inputs.sum(0).expand(4, 6))
    before = layer(inputs)
    after = layer.round()
    assert type(after) is nn.Linear
    torch.testing.assert_close(after(inputs), before)


@pytest.mark.parametrize("bits", [0, 1, 9, True])
def test_bits_that_cannot_be(bits):
    with pytest.raises(ValueError, match="expected a whole number from 2 to 8"):
        quantize(torch.ones(2), bits)
    with pytest.raises(ValueError, match="expected a whole number from 2 to 8"):
        QuantizedLinear(nn.Linear(2, 2), bits)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_values_without_a_grid(value):
    with pytest.raises(ValueError, match="hold NaN or infinity"):
        quantize(torch.tensor([1.0, value]), 4)


def test_the_small_numbers_of_float16_have_all_codes():
    """127 steps of the smallest normal number, 6e-5, would reach 0.008."""
    values = torch.linspace(-1, 1, 255).mul(1e-3).half()
    assert len(quantize(values, 8).codes.unique()) == 255


@pytest.mark.parametrize("size", [1e-4, 2e-7])
@pytest.mark.parametrize("bits", [2, 5, 8])
def test_the_smallest_numbers_of_float16_move_by_no_more_than_half_a_step(bits, size):
    values = torch.randn(64, 20, generator=torch.Generator().manual_seed(0)).mul(size).half()
    codes, step = (each.double() for each in quantize(values, bits, dim=1))
    assert ((codes * step - values.double()).abs() <= step / 2).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("bits", [2, 8])
def test_the_largest_number_stays_finite(dtype, bits):
    largest = torch.tensor([torch.finfo(dtype).max, -torch.finfo(dtype).max], dtype=dtype)
    assert quantize(largest, bits).values.isfinite().all()


def test_weights_that_became_nan_answer_nan():
    layer = QuantizedLinear(nn.Linear(2, 2), 4)
    layer.weight.data[0, 0] = math.nan
    assert layer(torch.ones(2)).isnan().tolist() == [True, False]
    assert type(layer.round()) is nn.Linear
