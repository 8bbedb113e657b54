import pytest
import timm
import torch
from torch import nn

import vitbook
from vitbook import datasets
from vitbook.errors import UnknownNameError
from vitbook.layers import quantize
from vitbook.studies.quantization import calibration, folding, rows, told
from vitbook.studies.quantization.activations import quantize_between, round_activations
from vitbook.studies.quantization.evidence import evidence
from vitbook.studies.quantization.rounding import (
    WAYS,
    best_step,
    input_squares,
    largest_step,
    round_by_outputs,
    round_linear,
)

IMAGES = torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(0))


def lite():
    """Four kinds of its layers with norms that have learned something."""
    torch.manual_seed(0)
    model = timm.create_model("tf_efficientnet_lite0").eval()
    for part in model.modules():
        if isinstance(part, nn.BatchNorm2d):
            for values in (part.weight, part.running_var):
                nn.init.uniform_(values, 0.2, 2)
            for values in (part.bias, part.running_mean):
                nn.init.normal_(values, std=0.2)
    return model


@torch.no_grad()
def test_a_folded_network_answers_the_same_and_keeps_the_codes_of_its_rows():
    model, images = lite(), torch.randn(2, 3, 64, 64)
    folded = folding.fold_batch_norms(model, images)
    exact = model(images)
    assert (folded(images) - exact).norm() < 1e-4 * exact.norm()
    assert folded.conv_stem.bias is not None and model.conv_stem.bias is None
    for path, part in folding.layers_of(model).items():
        both = (part.weight, folded.get_submodule(path).weight)
        codes = [quantize(each, 8, tuple(range(1, each.ndim))).codes for each in both]
        assert (codes[0] == codes[1]).double().mean() > 0.999


def test_a_norm_without_its_convolution_is_not_folded():
    with pytest.raises(ValueError, match="no convolution of 3 channels before the batch norm 0"):
        folding.fold_batch_norms(nn.Sequential(nn.BatchNorm2d(3), nn.Conv2d(3, 3, 1)), IMAGES)


@pytest.mark.parametrize(
    ("between", "norm", "told"),
    [
        ([nn.ReLU()], nn.BatchNorm2d(3), "no convolution of 3 channels before the batch norm 2"),
        ([nn.ConvTranspose2d(3, 3, 1)], nn.BatchNorm2d(3), "no convolution of 3 channels"),
        ([], nn.Sequential(nn.BatchNorm2d(3)), r"before the batch norm 1\.0"),  # shortcuts may end
        ([], nn.BatchNorm2d(3, affine=False), "the batch norm 1 has no weights or no statistics"),
        ([], nn.BatchNorm2d(3, track_running_stats=False), "no weights or no statistics"),
    ],
)
def test_a_norm_that_its_convolution_cannot_take_in_is_not_folded(between, norm, told):
    with pytest.raises(ValueError, match=told):
        folding.fold_batch_norms(nn.Sequential(nn.Conv2d(3, 3, 1), *between, norm), IMAGES)


class Between(nn.Module):
    """What no list of parts shows: a function between them, or a batch norm that is used twice."""

    def __init__(self, twice):
        super().__init__()
        self.conv, self.norm, self.twice = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), twice
        nn.init.constant_(self.norm.weight, 2.0)
        nn.init.constant_(self.norm.bias, 0.5)

    def forward(self, images):
        found = self.conv(images)
        return self.norm(self.norm(found)) if self.twice else self.norm(found.relu())


@pytest.mark.parametrize("twice", [True, False])
def test_a_copy_that_answers_otherwise_is_refused(twice):
    with pytest.raises(ValueError, match=r"change by \d.*%: expected a batch norm"):
        folding.fold_batch_norms(Between(twice), IMAGES)


def test_only_the_layers_that_are_named_are_rounded():
    model = lite()
    deep = folding.depthwise(model)
    assert set(deep) < set(folding.layers_of(model)) and len(deep) == 16
    small = folding.round_layers(model, 4, "channel", deep)
    for path, part in folding.layers_of(model).items():
        same = torch.equal(part.weight, small.get_submodule(path).weight)
        assert same == (path not in deep)
    with pytest.raises(ValueError, match="steps 'chanel': expected 'layer' or 'channel'"):
        folding.round_layers(model, 4, "chanel")
    with pytest.raises(UnknownNameError, match="unknown layer 'conv_stm': did you mean conv_stem"):
        folding.round_layers(model, 4, "channel", ["conv_stm"])
    part, rounded = next(iter(deep.items()))
    codes = small.get_submodule(part).weight.flatten(1)
    assert all(len(row.unique()) <= 15 for row in codes) and rounded.weight.unique().numel() > 15


def test_a_zero_point_uses_both_ends_and_keeps_zero():
    torch.manual_seed(0)
    values = torch.cat([torch.zeros(1), torch.rand(1000)])
    symmetric, between = quantize(values, 8).values, quantize_between(values, 8, (0,))
    errors = [(found - values).square().mean().sqrt() for found in (symmetric, between)]
    assert errors[1] / errors[0] == pytest.approx(127 / 255, abs=0.02)
    assert between[0] == 0 and len(quantize_between(values, 3, (0,)).unique()) == 8
    low = quantize_between(
        torch.tensor([-1.0, 0.0, 2.0]), 2, (0,)
    )  # a step of 1, a zero point of 1
    assert low.tolist() == [-1, 0, 2]
    assert quantize_between(torch.zeros(3), 8, (0,)).tolist() == [0, 0, 0]
    wide = torch.tensor([6e4, -6e4, 0]).half()  # a range beyond float16
    assert (quantize_between(wide, 8, (0,)).float() - wide.float()).abs().max() < 256
    with pytest.raises(ValueError, match="the values hold NaN or infinity"):
        quantize_between(torch.tensor([1, torch.nan]), 8, (0,))
    with pytest.raises(ValueError, match="0 bits: expected a whole number from 2 to 8"):
        quantize_between(values, 0, (0,))


@torch.no_grad()
def test_a_zero_point_costs_less_where_values_are_on_one_side():
    model = vitbook.load_checkpoint("digits-vit_micro_patch2_8-digits-seed0").model
    seen = datasets.normalize(datasets.load("digits", "test").images[:20])
    exact = model(seen)
    for place in ("softmax", "gelu"):
        errors = []
        for zero_point in (False, True):
            with round_activations(model, place, 4, zero_point=zero_point):
                errors.append((model(seen) - exact).norm())
        assert errors[1] < 0.8 * errors[0]


def test_the_best_step_is_no_worse_than_the_largest_and_clips_an_outlier():
    torch.manual_seed(0)
    weight = torch.randn(5, 200)

    def error(step):
        return ((weight / step).round().clamp(-3, 3) * step - weight).square().sum(1)

    assert (error(best_step(weight, 3)) < error(largest_step(weight, 3))).all()
    torch.testing.assert_close(largest_step(weight, 3)[:, 0] * 3, weight.abs().amax(1))
    assert largest_step(torch.zeros(1, 4).half(), 3) > 0
    with pytest.raises(ValueError, match="1 bits: expected a whole number from 2 to 8"):
        largest_step(weight, 1)


def test_two_equal_inputs_round_to_cancel():
    """By hand: two weights of 0.4 on a step of 1, read by inputs that are always equal."""
    squares, step = torch.ones(2, 2), torch.ones(1, 1)
    rounded = round_by_outputs(torch.tensor([[0.4, 0.4]]), step, squares, 3)
    assert sorted(rounded[0].tolist()) == [0, 1]
    apart = round_by_outputs(torch.tensor([[0.4, 0.4]]), step, torch.eye(2), 3)
    assert apart.tolist() == [[0, 0]]  # unrelated inputs: each to its nearest
    with pytest.raises(ValueError, match="the squares are all 0"):
        round_by_outputs(torch.tensor([[0.4, 0.4]]), step, torch.zeros(2, 2), 3)


def test_rounding_by_outputs_keeps_outputs_and_stays_on_the_grid():
    torch.manual_seed(0)
    inputs = torch.randn(500, 8) @ torch.randn(8, 32)  # 32 inputs, alike
    weight = torch.randn(6, 32)
    step = largest_step(weight, 3)
    found = round_by_outputs(weight, step, inputs.T @ inputs, 3)
    codes = found / step
    torch.testing.assert_close(codes, codes.round())
    assert codes.abs().max() <= 3.001
    errors = [
        ((each - weight) @ inputs.T).norm() for each in (found, quantize(weight, 3, 1).values)
    ]
    assert errors[0] < 0.6 * errors[1]


def test_inputs_of_every_layer_are_kept_and_every_way_rounds():
    model = vitbook.load_checkpoint("digits-vit_micro_patch2_8-digits-seed0").model
    seen = datasets.normalize(datasets.load("digits", "train").images[:64])
    squares = input_squares(model, seen.split(16))
    read = []
    first = model.encoder.blocks[0].attention.qkv
    handle = first.register_forward_pre_hook(lambda _, args: read.append(args[0].flatten(0, -2)))
    with torch.no_grad():
        exact = model(seen)
    handle.remove()
    torch.testing.assert_close(squares["encoder.blocks.0.attention.qkv"], read[0].T @ read[0])
    with torch.no_grad():
        moved = {w: (round_linear(model, 2, w, squares)(seen) - exact).norm() for w in WAYS}
    assert moved["by outputs"] < moved["nearest"]
    assert moved["clipped, by outputs"] < moved["clipped"]
    with pytest.raises(ValueError, match=r"what encoder\.blocks\.0.* reads: it did not run"):
        round_linear(model, 2, "by outputs", {})


def test_the_rows_behind_the_chapter_are_kept():
    found = evidence()
    assert [claim.name for claim in found.claims] == ["Two bits, learned", "Nine tenths zero"]
    assert [len(table.lines) for table in found.tables] == [7, 50, 40, 8, 9, 2, 5]
    assert {row["way"] for row in rows("calibrated_weights")} == set(WAYS)
    assert len(rows("zero_points", place="softmax")) == len(calibration.ACTIVATION_BITS)
    assert told()["kept-cnn"] < told()["kept-apart"] and told()["nearest-4"].startswith("−")
