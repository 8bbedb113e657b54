from dataclasses import replace
from itertools import pairwise

import pytest
import timm
import torch
import torch.nn.functional as F

import vitbook
from vitbook import datasets
from vitbook.layers import Encoder, PostNormBlock
from vitbook.models.papers.vit import DIGITS, MICRO_BODY, vit
from vitbook.studies.normalization import (
    gradient_norms,
    gradients_by_depth,
    largest_score,
    leads,
    residual_stream,
    spread,
)

SECOND = "mlp.contract.weight"


def batch(count=40):
    images = torch.randn(count, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    return images, torch.arange(count) % 10


def micro(**changes):
    torch.manual_seed(0)
    return vit(**DIGITS, body=MICRO_BODY, **changes)


def test_the_stream_is_the_loop_over_the_blocks():
    model, (images, _) = micro().train(), batch()
    found = residual_stream(model, images)
    assert model.training and not any(part._forward_hooks for part in model.modules())
    with torch.no_grad():
        tokens = [model.embed(images)]
        for block in model.encoder.blocks:
            tokens.append(block(tokens[-1]))
    sizes = [each.square().mean().sqrt().item() for each in tokens]
    assert found.size.tolist() == pytest.approx(sizes, rel=1e-5)
    changes = [
        ((after - before).square().mean() / before.square().mean()).sqrt().item()
        for before, after in pairwise(tokens)
    ]
    assert found.change.tolist() == pytest.approx(changes, rel=1e-5)


def test_post_norm_gives_one_behind_every_block_and_pre_norm_grows():
    for norm in ({}, {"make_block": PostNormBlock}):
        model = micro(**norm)
        vitbook.models.initialize(model, "xavier")
        size = residual_stream(model, batch()[0]).size
        if norm:
            assert size[1:].tolist() == pytest.approx([1] * 4, abs=1e-3)
        else:
            assert (size.diff() > 0).all() and size[-1] > 1


def test_the_stream_of_a_model_of_timm():
    model = timm.create_model("vit_tiny_patch16_224", img_size=32, depth=3)
    assert len(residual_stream(model, torch.randn(2, 3, 32, 32)).size) == 4


@pytest.mark.parametrize("changes", [{}, {"make_block": PostNormBlock}], ids=["pre", "post"])
def test_a_model_cut_to_its_first_blocks_is_one_of_these_blocks(changes):
    model, (images, labels) = micro(**changes), batch()
    blocks, last = list(model.encoder.blocks), model.encoder.norm
    found = gradients_by_depth(model, images, labels, (2, 4, 1), part=SECOND)
    assert list(found) == [2, 4, 1] and list(model.encoder.blocks) == blocks
    assert found[4] == gradient_norms(model, images, labels, part=SECOND)
    for depth, norms in found.items():
        model.encoder = Encoder(blocks[:depth], 64)
        model.encoder.norm = last
        model.zero_grad()
        F.cross_entropy(model.eval()(images), labels).backward()
        expected = [block.mlp.contract.weight.grad.norm().item() for block in blocks[:depth]]
        assert norms == pytest.approx(expected, rel=1e-4)


def test_with_depth_the_last_block_is_pulled_less_in_pre_norm_alone():
    digits = datasets.load("digits", "train")
    images, labels = datasets.normalize(digits.images[:10]), digits.labels[:10]
    shares = {}
    for norm, changes in {"pre": {}, "post": {"make_block": PostNormBlock}}.items():
        last = {1: 0.0, 16: 0.0}
        for seed in range(4):
            torch.manual_seed(seed)
            model = vit(**DIGITS, body=replace(MICRO_BODY, depth=16), **changes)
            vitbook.models.initialize(model, "xavier")  # as Xiong et al. 2020 do
            found = gradients_by_depth(model, images, labels, tuple(last), part=SECOND)
            last = {depth: last[depth] + norms[-1] for depth, norms in found.items()}
        shares[norm] = last[16] / last[1]
    assert shares["pre"] < 1 / 2 and shares["post"] > 2 / 3  # the square root of 16 is 4


def test_the_spread_of_class_tokens_is_zero_where_all_images_are_alike():
    model, (images, _) = micro(), batch(4)
    with torch.no_grad():
        expected = model.eval().features(images)[:, 0].var(dim=0).mean().item()
    assert spread(model, images) == pytest.approx(expected) and expected > 1e-6
    assert spread(model, images[:1].repeat(4, 1, 1, 1)) == pytest.approx(0, abs=1e-10)


def test_the_largest_score_grows_with_queries_and_keys():
    model, (images, _) = micro(), batch(4)
    before = largest_score(model, images)
    for block in model.encoder.blocks:
        block.attention.qkv.weight.data[:128] *= 3
    assert largest_score(model, images) > 4 * before > 0
    assert not any(part._forward_pre_hooks for part in model.modules())


def test_ahead_is_told_of_all_settings_and_by_points():
    found = leads()
    assert len(found) == 24 and found["Xavier's", 0.008, 0.0] < -50
