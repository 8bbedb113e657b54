"""Dropout and stochastic depth, set in a model that is there."""

import math

import pytest
import torch
from torch import nn

from vitbook import create_model
from vitbook.layers import Dropout
from vitbook.models import set_dropout, set_stochastic_depth


def test_dropout_acts_where_the_paper_has_it_and_only_in_training():
    model = create_model("vit_micro_patch2_8")
    set_dropout(model, 0.5)
    seen = []
    for module in model.modules():
        if isinstance(module, Dropout):
            module.register_forward_hook(lambda _m, came, left: seen.append((left == 0).sum() > 0))
    images = torch.rand(2, 1, 8, 8)
    model.train()(images)  # behind the positions; in a block behind attention and both layers
    assert len(seen) == 1 + 3 * len(model.encoder.blocks) and all(seen)
    assert not torch.equal(model(images), model(images))
    assert torch.equal(model.eval()(images), model(images))
    with pytest.raises(ValueError, match="Linear has no dropout, the recipe asks for 0.1"):
        set_dropout(nn.Linear(1, 1), 0.1)
    for rate in (-0.1, 1.0, math.nan):
        with pytest.raises(ValueError, match="expected a rate from 0 up to"):
            set_dropout(model, rate)
    assert model.dropout.rate == 0.5


@pytest.mark.parametrize("name", ["vit_postnorm_micro_patch2_8", "vit_reuse_half_micro_patch2_8"])
def test_every_block_of_the_family_drops(name):
    images = torch.rand(2, 1, 8, 8)
    model = create_model(name)
    before = model.train()(images)
    set_dropout(model, 0.0)
    assert torch.equal(model(images), before)
    for block in model.encoder.blocks:
        set_dropout(model, 0.0)
        set_dropout(block, 0.5)
        assert not torch.equal(model(images), before)


def test_stochastic_depth_grows():
    model = create_model("vit_micro_patch2_8")
    set_stochastic_depth(model, 0.3)
    rates = [block.drop_path.rate for block in model.encoder.blocks]
    assert rates == pytest.approx([0, 0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match="Linear has no stochastic depth, the recipe asks for 0.1"):
        set_stochastic_depth(nn.Linear(1, 1), 0.1)
