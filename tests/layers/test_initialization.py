import math

import pytest
import torch
from torch import nn

import vitbook
from vitbook.layers import xavier_uniform_
from vitbook.models import initialize


def bounds(model: nn.Module) -> dict[str, float]:
    """The largest weight of each matrix, of queries, keys and values each its own."""
    found = {}
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Linear):
            for part, weight in enumerate(layer.weight.chunk(3 if name.endswith("qkv") else 1)):
                found[f"{name} {part}"] = weight.abs().max().item()
    return found


@pytest.mark.parametrize("name", ["vit_micro_patch2_8", "vit_postnorm_micro_patch2_8"])
def test_every_matrix_fills_its_own_bounds(name):
    torch.manual_seed(0)
    model = vitbook.create_model(name)
    xavier_uniform_(model)
    width, hidden = 64, 128
    for name, largest in bounds(model).items():
        sides = {"expand": width + hidden, "contract": width + hidden, "classifier": width + 10}
        both = next((n for part, n in sides.items() if part in name), 2 * width)
        assert 0.98 * math.sqrt(6 / both) < largest <= math.sqrt(6 / both), name


def test_what_is_no_linear_layer_stays():
    model = vitbook.create_model("vit_micro_patch2_8")
    with torch.no_grad():
        model.head.classifier.bias.fill_(1.0)
    before = {name: p.clone() for name, p in model.named_parameters()}
    xavier_uniform_(model)
    linear = {f"{n}.weight" for n, part in model.named_modules() if isinstance(part, nn.Linear)}
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name]) != (
            name in linear or name == "head.classifier.bias"
        )
    assert not model.head.classifier.bias.any()


def test_a_way_that_is_not_known():
    with pytest.raises(KeyError, match="did you mean xavier"):
        initialize(vitbook.create_model("vit_micro_patch2_8"), "xaver")


@pytest.mark.parametrize("name", ["t2t_vit_micro_patch2_8", "t2t_vit_t_micro_patch2_8"])
def test_a_token_block_s_fused_layer_is_three_however_it_is_called(name):
    torch.manual_seed(0)
    model = vitbook.create_model(name)
    xavier_uniform_(model)
    block = model.tokenizer.block1
    fused = getattr(block, "kqv", None) or block.qkv
    outputs, inputs = fused.weight.shape
    own = math.sqrt(6 / (inputs + outputs // 3))
    assert [part.abs().max().item() for part in fused.weight.chunk(3)] == pytest.approx(
        [own] * 3, rel=0.05
    )
