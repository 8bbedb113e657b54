"""Tokens of a layer, and after the last norm: of ours, timm's, Hugging Face's, of no other."""

import copy

import pytest
import torch
import torch.nn.functional as F

from vitbook import create_model
from vitbook.analysis import layer_tokens
from vitbook.blocks import find_layer, find_layers
from vitbook.errors import UnknownNameError


@torch.no_grad()
def test_ours_are_what_the_head_reads():
    model, images = create_model("vit_micro_patch2_8").eval(), torch.rand(2, 1, 8, 8)
    tokens = layer_tokens(model, images, "last")
    assert tokens.shape == (2, 17, 64)
    assert torch.allclose(model.head(tokens), model(images), atol=1e-6)
    assert tokens.mean(-1).abs().max() < 0.01, "a LayerNorm with fresh weights came last"


@torch.no_grad()
def test_timms_are_those_of_forward_features():
    timm = pytest.importorskip("timm")
    model = timm.create_model("vit_tiny_patch16_224", img_size=32, depth=1).eval()
    images = torch.rand(1, 3, 32, 32)
    assert torch.equal(layer_tokens(model, images, "last"), model.forward_features(images))


@torch.no_grad()
def test_those_of_hugging_face_are_the_last_hidden_state():
    hf = pytest.importorskip("transformers")
    config = hf.ViTConfig(image_size=32, patch_size=16, hidden_size=48, num_hidden_layers=1,
                          num_attention_heads=3, intermediate_size=96)  # fmt: skip
    model, images = hf.ViTModel(config).eval(), torch.rand(1, 3, 32, 32)
    assert torch.equal(layer_tokens(model, images, "last"), model(images).last_hidden_state)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["CLIPVision", "Beit"])
def test_a_last_hidden_state_before_the_last_norm_is_refused(kind):
    hf = pytest.importorskip("transformers")
    config = getattr(hf, f"{kind}Config")(
        image_size=32, patch_size=16, hidden_size=48, num_hidden_layers=1, num_attention_heads=3,
        intermediate_size=96,
    )  # fmt: skip
    model = getattr(hf, f"{kind}Model")(config).eval()
    with pytest.raises(ValueError, match="has no tokens after its last norm to show"):
        layer_tokens(model, torch.rand(1, 3, 32, 32), "last")


@torch.no_grad()
@pytest.mark.parametrize("layer", ["last", -1])
def test_a_wrapped_model_and_one_of_another_precision_give_the_tokens_of_the_plain_one(layer):
    model, images = create_model("vit_micro_patch2_8").eval(), torch.rand(2, 1, 8, 8)
    expected = layer_tokens(model, images, layer)
    for other in (torch.nn.DataParallel(model), torch.compile(model, backend="eager")):
        assert torch.equal(layer_tokens(other, images, layer), expected)
    found = layer_tokens(copy.deepcopy(model).double(), images, layer)
    assert found.dtype == torch.float64 and torch.allclose(found.float(), expected, atol=1e-5)


@pytest.mark.parametrize("model", [torch.nn.Flatten(), torch.nn.Identity()])
def test_what_else_a_model_answers_are_no_tokens(model):
    with pytest.raises(ValueError, match="has no tokens after its last norm to show"):
        layer_tokens(model, torch.rand(1, 3, 8, 8), "last")


@torch.no_grad()
def test_a_block_is_asked_by_its_path_or_its_number_and_by_default_three_quarters_up():
    model, images = create_model("vit_micro_patch2_8").eval(), torch.rand(2, 1, 8, 8)
    third = model.embed(images)
    for block in model.encoder.blocks[:3]:
        third = block(third)
    expected = F.layer_norm(third, third.shape[-1:])
    for layer in (None, 2, -2, "encoder.blocks.2"):
        assert torch.allclose(layer_tokens(model, images, layer), expected, atol=1e-6)
    stack = torch.nn.Sequential(*(torch.nn.TransformerEncoderLayer(4, 1, 4) for _ in range(12)))
    assert find_layer(stack) == "8"
    with pytest.raises(TypeError, match=r"layers came as '8': expected several, as \['8'\]"):
        find_layers(stack, "8")


@torch.no_grad()
@pytest.mark.parametrize("library", ["timm", "transformers"])
def test_blocks_of_other_libraries_give_their_tokens(library):
    module = pytest.importorskip(library)
    if library == "timm":
        model = module.create_model("vit_tiny_patch16_224", img_size=32, depth=2).eval()
    else:
        config = module.ViTConfig(image_size=32, patch_size=16, hidden_size=48,
                                  num_hidden_layers=2, num_attention_heads=3)  # fmt: skip
        model = module.ViTForImageClassification(config).eval()
    tokens = layer_tokens(model, torch.rand(1, 3, 32, 32), 0)
    assert tokens.shape[:2] == (1, 5)
    assert tokens.var(-1, correction=0).sub(1).abs().max() < 1e-2


@pytest.mark.parametrize("layer", [4, -5, "encoder.blocks.9", "nothing like it"])
def test_a_layer_that_is_not_there_gets_the_list(layer):
    model = create_model("vit_micro_patch2_8")
    with pytest.raises(UnknownNameError, match=r"encoder\.blocks\.[0-3]"):
        layer_tokens(model, torch.rand(1, 1, 8, 8), layer)


def test_what_is_no_layer_of_tokens_is_refused():
    images = torch.rand(1, 1, 8, 8)
    with pytest.raises(TypeError, match="layer came as bool: expected the path of a module"):
        layer_tokens(create_model("vit_micro_patch2_8"), images, True)
    with pytest.raises(ValueError, match="expected tokens"):
        layer_tokens(create_model("resnet8_digits"), images)
    with pytest.raises(ValueError, match="expected blocks"):
        layer_tokens(torch.nn.Flatten(), images)
