"""Big Transfer, and the hybrid of a residual network and a ViT: our logits are timm's."""

import os
from functools import partial

import pytest
import timm
import torch
from timm.layers import StdConv2d
from timm.models.resnetv2 import ResNetV2
from timm.models.vision_transformer import VisionTransformer
from timm.models.vision_transformer_hybrid import HybridEmbed, StdConv2dSame

import vitbook
from vitbook.layers import resize_positions
from vitbook.models.papers.bit import bit
from vitbook.models.papers.hybrid import hybrid
from vitbook.models.papers.vit import Body
from vitbook.models.weights.timm import load_timm


def our_bit(size=64, **changes):
    settings = dict(image_size=size, num_classes=5, stage_depths=(1, 1, 1, 1), width_factor=1)
    return bit(**settings | changes).eval()


def our_hybrid(size=64, **changes):
    body = Body(48, 2, num_heads=3, mlp_width=192)
    settings = dict(image_size=size, num_classes=5, body=body, stage_depths=(1, 2, 1))
    return hybrid(**settings | changes).eval()


def timms_bit(size=64, **settings):
    conv = partial(StdConv2d, eps=1e-8)
    small = dict(layers=[1, 1, 1, 1], num_classes=5, stem_type="fixed", conv_layer=conv)
    return randomized(ResNetV2(**small | settings))


def timms_hybrid(size=64, **settings):
    backbone = ResNetV2(
        layers=(1, 2, 1), num_classes=0, global_pool="", preact=False, stem_type="same",
        conv_layer=StdConv2dSame,
    )  # fmt: skip
    small = dict(img_size=size, patch_size=1, num_classes=5, embed_dim=48, depth=2, num_heads=3)
    embed = partial(HybridEmbed, backbone=backbone)
    return randomized(VisionTransformer(**small | settings, embed_layer=embed))


def randomized(model):
    """No weight at zero or one, so that none can be left out unseen."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
    return model.eval()


PAIRS = {"bit": (our_bit, timms_bit), "hybrid": (our_hybrid, timms_hybrid)}
BOTH = pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)


@BOTH
@pytest.mark.parametrize("size", [(64, 96), (32, 32)])
@torch.no_grad()
def test_the_logits_are_timms(pair, size):
    ours, source = (make(size) for make in pair)
    images = torch.randn(2, 3, *size)
    logits = source(images)
    assert logits.std() > 0.05
    assert (load_timm(ours, source)(images) - logits).abs().max() < 1e-4


# Their depths are the others'.
WIDEST = ("50x3", "101x3") if os.environ.get("ALL") else ()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "theirs"),
    [(f"bit_resnet{n}", f"resnetv2_{n}_bit") for n in ("50x1", "101x1", "152x2", *WIDEST)]
    + [(name, name) for name in ("vit_base_r50_s16_224", "vit_base_r50_s16_384")],
)
@torch.no_grad()
def test_the_logits_of_the_papers_sizes_are_timms(name, theirs, undrawn):
    # In float64: over 152 layers the rounding of float32 alone comes to some 1e-4.
    source = randomized(timm.create_model(theirs, num_classes=1000)).double()
    size = 64 if name.startswith("bit") else vitbook.models.default_image_size(name)
    ours = undrawn(name, image_size=size).double()
    images = torch.randn(1, 3, size, size, dtype=torch.float64)
    assert (load_timm(ours, source)(images) - source(images)).abs().max() < 1e-9


@torch.no_grad()
def test_features_are_the_last_map_row_by_row():
    source = timms_bit()
    ours = load_timm(our_bit((64, 96)), source)
    images = torch.randn(2, 3, 64, 96)
    tokens = ours.features(images)
    assert (ours.grid_size, ours.patch_size, ours.num_prefix_tokens) == ((2, 3), 32, 0)
    assert tokens.shape == (2, 6, 2048)
    maps = source.forward_features(images)
    assert torch.allclose(tokens[:, 1 * 3 + 2], maps[:, :, 1, 2], atol=1e-4)
    assert torch.allclose(ours(images), ours.head.classifier(tokens.mean(1)), atol=1e-6)


@torch.no_grad()
def test_the_hybrids_tokens_are_pixels_of_its_map_behind_a_class_token():
    model, images = our_hybrid((32, 48), channels=1), torch.randn(2, 1, 32, 48)
    assert (model.grid_size, model.patch_size, model.num_prefix_tokens) == ((2, 3), 16, 1)
    tokens = model.embed(images)
    assert tokens.shape == (2, 7, 48)
    assert torch.allclose(tokens[:, 1:] - model.position.table[1:], model.tokenizer(images))
    assert torch.equal(model.features(images), model.encoder(tokens))


@torch.no_grad()
def test_positions_of_another_grid():
    source = timms_hybrid()
    ours = load_timm(our_hybrid((96, 160)), source)
    assert torch.equal(ours.position.table, resize_positions(source.pos_embed[0], (4, 4), (6, 10)))


@BOTH
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (dict(size=40), "image 40x40 is not divisible by patch (32|16): use 32 or (64|48), or pad"),
        (dict(num_classes=0), "0 classes: expected at least 1"),
        (dict(stage_depths=(1, 0)), r"stage depths \(1, 0\): expected at least one block"),
    ],
)
def test_sizes_that_cannot_be(pair, changes, words):
    with pytest.raises(ValueError, match=words):
        pair[0](**changes)


@BOTH
def test_images_that_the_model_cannot_take(pair):
    with pytest.raises(ValueError, match="image 32x64, but the model takes 64x64"):
        pair[0]()(torch.zeros(2, 3, 32, 64))
