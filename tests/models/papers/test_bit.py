from functools import partial

import pytest
import timm
import torch
from timm.layers import StdConv2d

from vitbook.models.papers.bit import BIT_MODELS, bit
from vitbook.models.weights.timm import load_timm

TINY = dict(image_size=64, num_classes=5, stage_depths=(1, 1, 1, 1), width_factor=1)


def randomized(model):
    """No weight at zero or one, so that none can be left out unseen."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
    return model.eval()


def random_timm(layers):
    return randomized(timm.create_model(f"resnetv2_{layers}_bit"))


def tiny_timm(**settings):
    # As timm builds its BiT, of one block a stage.
    conv = partial(StdConv2d, eps=1e-8)
    plain = dict(layers=[1, 1, 1, 1], num_classes=5, stem_type="fixed", conv_layer=conv)
    return randomized(timm.models.resnetv2.ResNetV2(**plain | settings))


@torch.no_grad()
def test_the_logits_are_timms():
    source = random_timm("50x1")
    ours = load_timm(bit(**BIT_MODELS["bit_resnet50x1"]).eval(), source)
    images = torch.randn(2, 3, 224, 224)
    logits = source(images)
    assert logits.std() > 0.1
    assert (ours(images) - logits).abs().max() < 1e-4


@pytest.mark.parametrize("size", [(64, 96), (32, 32)])
@torch.no_grad()
def test_the_logits_are_timms_at_another_size(size):
    source = tiny_timm()
    ours = load_timm(bit(**TINY | dict(image_size=size)).eval(), source)
    images = torch.randn(2, 3, *size)
    assert (ours(images) - source(images)).abs().max() < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("layers", ["50x3", "101x1", "101x3", "152x2"])
@torch.no_grad()
def test_the_logits_of_deep_and_wide_ones_are_timms(layers):
    # In float64: over 152 layers the rounding of float32 alone comes to some 1e-4.
    source = random_timm(layers).double()
    ours = bit(**BIT_MODELS[f"bit_resnet{layers}"] | dict(image_size=64)).eval().double()
    images = torch.randn(2, 3, 64, 64, dtype=torch.float64)
    assert (load_timm(ours, source)(images) - source(images)).abs().max() < 1e-9


@torch.no_grad()
def test_features_are_the_last_map_row_by_row():
    source = tiny_timm()
    ours = load_timm(bit(**TINY | dict(image_size=(64, 96))).eval(), source)
    images = torch.randn(2, 3, 64, 96)
    tokens = ours.features(images)
    assert (ours.grid_size, ours.patch_size, ours.num_prefix_tokens) == ((2, 3), 32, 0)
    assert tokens.shape == (2, 6, 2048)
    maps = source.forward_features(images)
    assert torch.allclose(tokens[:, 1 * 3 + 2], maps[:, :, 1, 2], atol=1e-4)
    logits = ours.head.classifier(tokens.mean(1))
    assert torch.allclose(ours(images), logits, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (dict(image_size=48), "image 48x48 is not divisible by patch 32: use 32 or 64, or pad"),
        (dict(image_size=(64, 16)), "image 64x16 is not divisible by patch 32: use 64x32, or pad"),
        (dict(num_classes=0), "0 classes: expected at least 1"),
        (dict(stage_depths=(1, 0)), r"stage depths \(1, 0\): expected at least one block"),
    ],
)
def test_sizes_that_cannot_be(changes, words):
    with pytest.raises(ValueError, match=words):
        bit(**TINY | changes)


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((2, 3, 32, 64), "image 32x64, but the model takes 64x64"),
        ((2, 1, 64, 64), "images have 1 channels, the model takes 3"),
    ],
)
def test_images_that_the_model_cannot_take(shape, words):
    with pytest.raises(ValueError, match=words):
        bit(**TINY)(torch.zeros(shape))


def test_a_model_without_a_head_leaves_ours():
    ours = bit(**TINY)
    head = ours.head.classifier.weight.clone()
    load_timm(ours, tiny_timm(num_classes=0))
    assert torch.equal(ours.head.classifier.weight, head)
