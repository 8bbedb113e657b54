import pytest
import timm
import torch
import torchvision
from torch import nn
from transformers import ViTConfig, ViTForImageClassification

import vitbook
from vitbook.analysis import dead_and_saturated, feature_maps, list_blocks
from vitbook.errors import UnknownNameError
from vitbook.models.papers.vit import Body, vit


def own(**changes):
    body = Body(24, 2, num_heads=3, mlp_width=48)
    return vit(image_size=(40, 56), patch_size=4, num_classes=5, body=body, **changes)


def from_timm(name, **changes):
    return timm.create_model(name, depth=2, embed_dim=24, num_heads=3, **changes)


# model, shape of its images, path of its blocks, grid
FOREIGN = {
    "timm, registers": (
        lambda: from_timm("vit_base_patch14_reg4_dinov2", img_size=(140, 196)),
        (3, 140, 196), "blocks.{}", (10, 14),
    ),
    "torchvision": (
        lambda: torchvision.models.VisionTransformer(32, 8, 2, 2, 24, 48),
        (3, 32, 32), "encoder.layers.encoder_layer_{}", (4, 4),
    ),
    "Hugging Face": (
        lambda: ViTForImageClassification(
            ViTConfig(image_size=(32, 48), patch_size=8, hidden_size=24, num_hidden_layers=2,
                      num_attention_heads=3, intermediate_size=48)
        ),
        (3, 32, 48), None, (4, 6),
    ),
}  # fmt: skip


def test_tokens_are_laid_on_the_grid_behind_their_prefix():
    torch.manual_seed(0)
    model, images = own().train(), torch.randn(5, 3, 40, 56)
    maps = feature_maps(model, images, batch_size=2)
    assert list(maps) == ["tokenizer.projection", "encoder.blocks.0", "encoder.blocks.1"]
    assert all(layer.shape == (5, 24, 10, 14) for layer in maps.values())
    assert all(module.training for module in model.modules())
    model.eval()
    with torch.no_grad():
        tokens = model.encoder.blocks[0](model.embed(images))
        assert torch.allclose(maps["encoder.blocks.0"][3, :, 7, 2], tokens[3, 1 + 7 * 14 + 2])
        assert torch.allclose(maps["tokenizer.projection"], model.tokenizer.projection(images))
    assert not maps["encoder.blocks.1"].requires_grad


@pytest.mark.parametrize("name", FOREIGN)
def test_models_of_others_are_shown_too(name):
    build, shape, path, grid = FOREIGN[name]
    model = build().eval()
    maps = feature_maps(model, torch.randn(2, *shape))
    blocks = list_blocks(model)
    if path is not None:
        assert blocks == (path.format(0), path.format(1))
    assert len(blocks) == 2 and list(maps)[-2:] == list(blocks) and len(maps) == 3
    assert all(layer.shape == (2, 24, *grid) for layer in maps.values())


def test_of_an_output_with_parts_the_first_is_shown():
    model, layer = FOREIGN["torchvision"][0](), "encoder.layers.encoder_layer_1.self_attention"
    maps = feature_maps(model, torch.randn(2, 3, 32, 32), [layer])  # it gives (tokens, None)
    assert maps[layer].shape == (2, 24, 4, 4)


def test_every_kind_of_front_is_shown_on_its_own_grid():
    images = torch.randn(2, 1, 8, 8)
    for name, expected in {
        "t2t_vit_micro_patch2_8": {
            "tokenizer.block1": (16, 8, 8), "tokenizer.projection": (64, 4, 4),
        },
        "t2t_vit_t_micro_patch2_8": {"tokenizer.block1": (16, 8, 8)},
        "sl_vit_micro_patch2_8": {"tokenizer.projection": (64, 4, 4)},
        "vit_micro_r8_s2_8": {
            "tokenizer.conv": (32, 8, 8), "tokenizer.stages.1.0": (256, 4, 4),
            "encoder.blocks.3": (64, 4, 4),
        },
        "resnet8_digits": {"stem": (16, 8, 8), "stages.2": (64, 2, 2)},
        "bit_resnet8x1_digits": {"stages.0.1": (256, 2, 2)},
        "axial_vit_micro_patch2_8": {"encoder.blocks.1": (64, 4, 4)},
    }.items():  # fmt: skip
        maps = feature_maps(vitbook.create_model(name), images)
        assert expected.items() <= {p: m.shape[1:] for p, m in maps.items()}.items(), name


def test_any_module_can_be_asked_for_and_inside_a_soft_split_too():
    model = vitbook.create_model("t2t_vit_micro_patch2_8")
    layers = ["encoder.blocks.2.mlp", "tokenizer.block1.mlp", "encoder.norm"]
    maps = feature_maps(model, torch.randn(2, 1, 8, 8), layers)
    assert {path: tuple(m.shape) for path, m in maps.items()} == {
        "tokenizer.block1.mlp": (2, 16, 8, 8),
        "encoder.blocks.2.mlp": (2, 64, 4, 4),
        "encoder.norm": (2, 64, 4, 4),
    }


def test_the_model_keeps_its_precision():
    maps = feature_maps(own().bfloat16(), torch.randn(2, 3, 40, 56))
    assert maps["encoder.blocks.1"].dtype == torch.bfloat16
    assert not any(health.dead.any() for health in dead_and_saturated(maps).values())


def test_layers_that_are_not_there():
    images = torch.randn(1, 3, 40, 56)
    with pytest.raises(UnknownNameError, match="'encoder.block.1': did you mean encoder.blocks.1"):
        feature_maps(own(), images, ["encoder.block.1"])
    with pytest.raises(UnknownNameError, match=r"'zzz': known: encoder.blocks.0, encoder.blocks.1"):
        feature_maps(own(), images, ["zzz"])
    with pytest.raises(ValueError, match="no layers found in Linear: expected blocks"):
        feature_maps(nn.Linear(4, 4), torch.randn(1, 3, 4, 4))


def test_a_layer_that_does_not_run_or_gives_nothing_to_lay_out():
    model, images = own(), torch.randn(1, 3, 40, 56)
    model.spare = nn.Linear(2, 2)
    with pytest.raises(RuntimeError, match="layer spare of VisionTransformer did not run"):
        feature_maps(model, images, ["spare"])
    with pytest.raises(ValueError, match=r"head gives \(1, 5\): expected tokens"):
        feature_maps(model, images, ["head"])
    with pytest.raises(ValueError, match="141 tokens, but 1 prefix .* 10x13 make 131: pass grid"):
        feature_maps(model, images, ["encoder.norm"], grid_size=(10, 13))


def test_planted_channels_are_found():
    torch.manual_seed(0)
    maps = torch.randn(4, 20, 5, 7)
    maps[:, 3] = 0
    maps[:, 4] = -2.5
    maps[:, 8] *= 100
    maps[2, 9, 4, 6] = -200  # once is enough
    (health,) = dead_and_saturated({"layer": maps}).values()
    assert health.dead.nonzero().flatten().tolist() == [3, 4]
    assert health.saturated.nonzero().flatten().tolist() == [8, 9]
    assert health.dead_share == pytest.approx(0.1) == health.saturated_share
    assert health.magnitudes[4] == 2.5 and health.magnitudes[9] == 200


def test_the_rule_is_what_it_says():
    maps = torch.linspace(-1, 1, 6).double().reshape(1, 1, 2, 3).repeat(1, 5, 1, 1)
    maps[:, 0] *= 9.99
    maps[:, 1] *= 10.01
    maps[:, 2] = 1e3 + 1e-7 * maps[:, 2]
    (health,) = dead_and_saturated({"layer": maps}).values()
    assert health.saturated.tolist() == [False, True, False, False, False]
    assert health.dead.tolist() == [False, False, True, False, False]
    (again,) = dead_and_saturated({"layer": 1e4 * maps}).values()
    assert torch.equal(again.dead, health.dead) and torch.equal(again.saturated, health.saturated)
    (strict,) = dead_and_saturated({"layer": maps}, factor=9.0).values()
    assert strict.saturated.sum() == 2


def test_a_layer_all_dead_and_one_almost():
    (health,) = dead_and_saturated({"layer": torch.zeros(2, 6, 3, 3)}).values()
    assert health.dead_share == 1 and health.saturated_share == 0
    maps = torch.zeros(2, 6, 3, 3)
    maps[:, 5] = torch.randn(2, 3, 3)
    (health,) = dead_and_saturated({"layer": maps}).values()
    assert health.dead.tolist() == [True] * 5 + [False]


def test_dead_relus_of_a_real_network():
    model = vitbook.create_model("resnet8_digits").eval()
    with torch.no_grad():
        model.stages[0].norm2.bias[2] = -1e4  # its ReLU never opens
        model.stages[0].norm2.bias[5] = 1e4
    health = dead_and_saturated(feature_maps(model, torch.randn(3, 1, 8, 8)))["stages.0"]
    assert health.dead[2] and health.saturated.nonzero().flatten().tolist() == [5]


@pytest.mark.parametrize(
    ("maps", "factor", "words"),
    [
        ({}, 10.0, "0 layers and factor 10.0"),
        (
            {"a": torch.randn(1, 2, 3, 3)},
            1.0,
            "1 layers and factor 1.0: expected 1 and more than 1",
        ),
        ({"b.c": torch.full((1, 2, 3, 3), torch.nan)}, 10.0, "b.c: maps hold NaN or infinity"),
    ],
)
def test_maps_that_cannot_be_judged(maps, factor, words):
    with pytest.raises(ValueError, match=words):
        dead_and_saturated(maps, factor)


def test_blocks_are_the_innermost_of_what_is_stacked():
    resnet = vitbook.create_model("bit_resnet8x1_digits")
    assert list_blocks(resnet) == ("stages.0.0", "stages.0.1")  # not stages.0, which holds them
    assert list_blocks(nn.Sequential(resnet)) == ("0.stages.0.0", "0.stages.0.1")
    assert list_blocks(nn.Sequential(nn.Linear(2, 2), nn.GELU())) == ()


def test_what_later_layers_do_in_place_does_not_reach_what_was_kept():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(inplace=True)).eval()
    images = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        before = model[0](images)
    maps = feature_maps(model, images, ["0", "1"])
    assert (before < 0).any()
    torch.testing.assert_close(maps["0"], before)
    torch.testing.assert_close(maps["1"], before.relu())
