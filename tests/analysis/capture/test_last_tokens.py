"""Tokens after the last norm: of ours, of timm's, of a bare one of Hugging Face, of no other."""

import pytest
import torch

from vitbook import create_model
from vitbook.analysis import last_tokens


@torch.no_grad()
def test_ours_are_what_the_head_reads():
    model, images = create_model("vit_micro_patch2_8").eval(), torch.rand(2, 1, 8, 8)
    tokens = last_tokens(model, images)
    assert tokens.shape == (2, 17, 64)
    assert torch.allclose(model.head(tokens), model(images), atol=1e-6)
    assert tokens.mean(-1).abs().max() < 0.01, "a LayerNorm with fresh weights came last"


@torch.no_grad()
def test_timms_are_those_of_forward_features():
    timm = pytest.importorskip("timm")
    model = timm.create_model("vit_tiny_patch16_224", img_size=32, depth=1).eval()
    images = torch.rand(1, 3, 32, 32)
    assert torch.equal(last_tokens(model, images), model.forward_features(images))


@torch.no_grad()
def test_those_of_hugging_face_are_the_last_hidden_state():
    hf = pytest.importorskip("transformers")
    config = hf.ViTConfig(image_size=32, patch_size=16, hidden_size=48, num_hidden_layers=1,
                          num_attention_heads=3, intermediate_size=96)  # fmt: skip
    model, images = hf.ViTModel(config).eval(), torch.rand(1, 3, 32, 32)
    assert torch.equal(last_tokens(model, images), model(images).last_hidden_state)


@pytest.mark.parametrize("model", [torch.nn.Flatten(), torch.nn.Identity()])
def test_what_else_a_model_answers_are_no_tokens(model):
    with pytest.raises(ValueError, match="has no tokens after its last norm to show"):
        last_tokens(model, torch.rand(1, 3, 8, 8))
