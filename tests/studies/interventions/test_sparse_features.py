"""Directions that are planted are found, and a push is a push of the patch tokens alone."""

import copy

import pytest
import torch

import vitbook
from vitbook.analysis.capture.outputs import outputs_of
from vitbook.blocks import list_blocks
from vitbook.studies.interventions.sparse_features import (
    TOP,
    _described,
    _directions,
    _steered,
    pushed_answers,
)
from vitbook.training import fit_sparse_autoencoder

CLASSES, EACH, PATCHES, WIDTH = 6, TOP, 6, 16


@pytest.fixture(scope="module")
def planted():
    """Tokens of noise, and in each class one direction of its own in half of the patches."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(CLASSES).repeat_interleave(EACH)
    own = torch.linalg.qr(torch.randn(WIDTH, CLASSES, generator=generator))[0].T
    tokens = 0.05 * torch.randn(len(labels), PATCHES, WIDTH, generator=generator)
    tokens[:, ::2] += 2 * own[labels][:, None]
    return tokens, labels, own


@pytest.fixture(scope="module")
def fit(planted):
    return fit_sparse_autoencoder(
        planted[0].flatten(0, 1), 16, 2, steps=1500, batch_size=64, rate=3e-3
    )


def test_the_feature_of_a_class_is_its_planted_direction(planted, fit):
    tokens, labels, own = planted
    found = _directions(tokens, fit, labels)
    lengths = torch.stack([each.norm(dim=1) for each in found.values()])
    assert lengths.allclose(lengths[:1].expand_as(lengths))
    alike = torch.nn.functional.normalize(found["feature"], dim=1) @ own.T
    assert (alike.argmax(1) == torch.arange(CLASSES)).all() and alike.diag().min() > 0.5


def test_features_of_planted_classes_are_rather_of_one_class_than_those_of_noise(planted, fit):
    tokens, labels, _ = planted
    assert _described(tokens, fit, labels)["features"] > 0.7
    noise = torch.randn(tokens.shape, generator=torch.Generator().manual_seed(1))
    blind = fit_sparse_autoencoder(noise.flatten(0, 1), 8, 1, steps=20, batch_size=64)
    assert _described(noise, blind, labels)["features"] < 0.5


def test_features_that_nothing_uses_are_no_number(planted, fit):
    tokens, labels, _ = planted
    dead = copy.deepcopy(fit)
    dead.model.readers.data.zero_()
    with pytest.raises(ValueError, match=f"no direction is used by {TOP} of {len(labels)} images"):
        _described(tokens, dead, labels)
    with pytest.raises(ValueError, match="class 0 use no feature more than the others do"):
        _directions(tokens, dead, labels)


def test_a_push_of_nothing_is_the_model_and_a_push_spares_the_class_token():
    torch.manual_seed(0)
    model = vitbook.create_model("vit_micro_patch2_8").eval()
    images = torch.rand(3, 1, 8, 8) * 2 - 1
    path = list_blocks(model)[-1]
    tokens = outputs_of(model, images, (path,), lambda _, out: out)[path]
    first, way = len(list_blocks(model)), torch.randn(tokens.shape[-1])
    with torch.no_grad():
        plain = model(images)
        assert torch.allclose(pushed_answers(model, tokens, first), plain, atol=1e-6)
        # Behind the last block a class-token head sees no patch.
        assert torch.allclose(pushed_answers(model, tokens, first, way), plain, atol=1e-6)
        earlier = list_blocks(model)[0]
        before = outputs_of(model, images, (earlier,), lambda _, out: out)[earlier]
        assert not torch.allclose(pushed_answers(model, before, 1, way), plain, atol=1e-2)


def test_a_push_along_what_the_head_reads_names_its_class():
    torch.manual_seed(0)
    model = vitbook.create_model("vit_micro_patch2_8", pool="mean").eval()
    path = list_blocks(model)[-1]
    ways = 50 * torch.nn.functional.normalize(model.head.classifier.weight.detach(), dim=1)
    labels = torch.arange(10)
    rows = _steered(model, torch.rand(10, 1, 8, 8), labels, path, {"head": ways, "none": 0 * ways})
    assert rows[0]["first"][0] == 1 and rows[0]["own"][1] > 0
    assert rows[2]["own"] == [0.0, 0.0, 0.0]
