"""Models whose sequence shrinks: each way by its definition, equal costs, refusals."""

import pytest
import torch

import vitbook
from vitbook.layers import OnGrid, SequenceProjection
from vitbook.measure import count_macs
from vitbook.models.papers.shrinking import SHRINKING_VIT_MODELS, by_averaging, shrinking_vit
from vitbook.models.papers.vit import Body
from vitbook.runs import get_recipe
from vitbook.training.engine.optimization import parameter_groups

TINY = dict(num_classes=3, channels=1, patch_size=1, body=Body(8, 2, num_heads=2, mlp_width=8))


def test_the_grid_is_laid_out_and_put_in_a_row_again():
    tokens = torch.arange(24.0).view(1, 12, 2)  # 2 rows, 6 columns
    shrunk = OnGrid((2, 6), torch.nn.AvgPool2d(2))(tokens)
    by_hand = [tokens[0, [2 * c, 2 * c + 1, 2 * c + 6, 2 * c + 7]].mean(0) for c in range(3)]
    assert torch.equal(shrunk[0], torch.stack(by_hand))
    with pytest.raises(ValueError, match="13 tokens came for a grid of 2x6: expected 12, without"):
        OnGrid((2, 6), torch.nn.AvgPool2d(2))(torch.zeros(1, 13, 2))


@pytest.mark.parametrize("name", SHRINKING_VIT_MODELS)
@torch.no_grad()
def test_the_second_half_has_a_quarter_of_the_tokens(name):
    model = vitbook.create_model(name).eval()
    images, seen = torch.randn(2, 1, 8, 8), []
    for block in model.encoder.blocks:
        block.register_forward_hook(lambda _, __, out: seen.append(out.shape[1]))
    assert model(images).shape == (2, 10)
    assert seen == [64, 64, 16, 16]
    assert model.features(images).shape[1:] == (16, model.head.classifier.in_features)


def test_they_cost_the_same():
    costs = [
        count_macs(vitbook.create_model(name), torch.zeros(1, 1, 8, 8))
        for name in SHRINKING_VIT_MODELS
    ]
    assert max(costs) < 1.05 * min(costs)


@torch.no_grad()
def test_a_linear_layer_numbers_its_tokens_and_a_convolution_does_not():
    """A convolution moves with the grid; a table of places does not."""
    tokens = torch.randn(1, 64, 8)
    moved = tokens.view(1, 8, 8, 8).roll(2, 2).flatten(1, 2)
    ways = {
        True: OnGrid((8, 8), torch.nn.Conv2d(8, 8, kernel_size=2, stride=2)),
        False: SequenceProjection(64, 16),
    }
    for kept, shrink in ways.items():
        expected = shrink(tokens).view(1, 4, 4, 8).roll(1, 2).flatten(1, 2)
        assert torch.allclose(shrink(moved), expected, atol=1e-5) is kept


def test_a_grid_that_cannot_be_halved():
    with pytest.raises(ValueError, match="a grid of 4x5 tokens: expected even sides"):
        shrinking_vit(**TINY, image_size=(4, 5), make_shrink=by_averaging)


def test_places_told_again_do_not_decay():
    model = vitbook.create_model("shrinking_vit_placed_micro_patch1_8")
    groups = parameter_groups(model, get_recipe("digits"))
    spared = {id(w) for group in groups if not group["weight_decay"] for w in group["params"]}
    tables = [w for name, w in model.named_parameters() if name.endswith("position.table")]
    assert len(tables) == 2 and all(id(table) in spared for table in tables)
