import pytest
import timm
import torch

import vitbook
from vitbook.models.weights.timm import load_timm


def random_timm(name: str, **settings) -> torch.nn.Module:
    """timm's model with no weight at zero or one, so that none can be left out unseen."""
    model = timm.create_model(name, **settings).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
    return model


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "deit_tiny_distilled_patch16_224"])
@torch.no_grad()
def test_the_logits_are_timms(name):
    torch.manual_seed(0)
    source = random_timm(name)
    ours = load_timm(vitbook.create_model(name).eval(), source)
    images = torch.randn(2, 3, 224, 224)
    logits = source(images)
    assert logits.std() > 0.1
    assert (ours(images) - logits).abs().max() < 1e-4


@torch.no_grad()
def test_the_logits_are_timms_at_another_resolution():
    source = random_timm("vit_tiny_patch16_224")
    ours = load_timm(vitbook.create_model("vit_tiny_patch16_224", image_size=(160, 256)), source)
    source.set_input_size((160, 256))
    images = torch.randn(1, 3, 160, 256)
    assert (ours.eval()(images) - source(images)).abs().max() < 1e-4


@torch.no_grad()
def test_both_heads_of_a_distilled_model_are_timms():
    source = random_timm("deit_tiny_distilled_patch16_224")
    ours = load_timm(vitbook.create_model("deit_tiny_distilled_patch16_224"), source)
    source.distilled_training = True  # timm then tells its heads apart
    images = torch.randn(2, 3, 224, 224)
    for mine, theirs in zip(ours.train()(images), source.train()(images), strict=True):
        assert (mine - theirs).abs().max() < 1e-4
    assert (ours.head.classifier.weight - ours.head.distillation.weight).abs().max() > 0.01


def test_a_model_without_a_head_leaves_ours():
    ours = vitbook.create_model("vit_tiny_patch16_224", num_classes=5)
    head = ours.head.classifier.weight.clone()
    load_timm(ours, random_timm("vit_tiny_patch16_224", num_classes=0))
    assert torch.equal(ours.head.classifier.weight, head)


def test_no_internet(monkeypatch):
    def offline(*args, **kwargs):
        raise OSError("no route to host")

    monkeypatch.setattr(timm, "create_model", offline)
    with pytest.raises(ConnectionError, match="could not be downloaded .*: connect to the inter"):
        load_timm(vitbook.create_model("vit_tiny_patch16_224"), "vit_tiny_patch16_224")
