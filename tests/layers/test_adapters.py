import pytest
import torch
from torch import nn

import vitbook
from vitbook.layers import LowRankLinear
from vitbook.models.editing import add_adapters, merge_adapters


def test_an_adapter_is_a_matrix_of_its_rank():
    torch.manual_seed(0)
    layer, inputs = nn.Linear(5, 4), torch.rand(3, 5)
    adapted = LowRankLinear(layer, 2)
    with torch.no_grad():
        adapted.up.copy_(torch.randn(4, 2))
    change = adapted.up @ adapted.down
    assert torch.linalg.matrix_rank(change) == 2
    torch.testing.assert_close(adapted(inputs), layer(inputs) + inputs @ change.T)


def test_only_the_adapter_learns():
    adapted = LowRankLinear(nn.Linear(5, 4), 2)
    adapted(torch.rand(3, 5)).sum().backward()
    assert adapted.weight.grad is None and adapted.bias.grad is None
    assert adapted.up.grad.any() and not adapted.down.grad.any()  # up is zero at first


def test_merged_it_answers_the_same_and_has_the_layer_s_names():
    torch.manual_seed(0)
    model = vitbook.create_model("vit_micro_patch2_8").eval()
    names, images = list(model.state_dict()), torch.rand(2, 1, 8, 8)
    before = model(images)
    add_adapters(model, 3)
    assert torch.equal(model(images), before)
    for name, weight in model.named_parameters():
        if name.endswith(".up"):
            nn.init.normal_(weight, std=0.05)
    changed = model(images)
    assert not torch.allclose(changed, before)
    merge_adapters(model)
    assert list(model.state_dict()) == names
    torch.testing.assert_close(model(images), changed)


def test_a_layer_that_stands_twice_has_one_adapter():
    model = vitbook.create_model("vit_micro_patch2_8")
    model.encoder.blocks[1].mlp = model.encoder.blocks[0].mlp
    add_adapters(model, 2)
    assert model.encoder.blocks[1].mlp.expand is model.encoder.blocks[0].mlp.expand
    merge_adapters(model)
    assert model.encoder.blocks[1].mlp.expand is model.encoder.blocks[0].mlp.expand


@pytest.mark.parametrize("rank", [0, -1, 65, True])
def test_a_rank_that_no_layer_has(rank):
    model = vitbook.create_model("vit_micro_patch2_8")
    with pytest.raises(ValueError, match=f"rank {rank}: expected 1 to 64, the narrowest"):
        add_adapters(model, rank)
    assert not any(isinstance(part, LowRankLinear) for part in model.modules())


@pytest.mark.parametrize("name", ["resnet20", "bit_resnet50x1"])
def test_a_model_without_an_encoder(name):
    with torch.device("meta"):
        model = vitbook.create_model(name)
    with pytest.raises(ValueError, match=r"expected linear layers in model\.encoder"):
        add_adapters(model, 2)
