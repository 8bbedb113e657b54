"""Scores that tell a good starting point: right where the answer is known, and no leak."""

import pytest
import torch

from vitbook import datasets
from vitbook.training import projected_scores, transfer_score
from vitbook.training.transfer.neighbours import neighbours
from vitbook.training.transfer.ridge import RidgePath


def test_features_that_are_the_classes_are_read_without_a_mistake():
    labels = torch.arange(40) % 4
    score = transfer_score(torch.eye(4)[labels] + 0.01 * torch.randn(40, 4), labels)
    assert score.ridge == score.neighbours == 1


def test_no_image_is_read_by_what_it_taught_itself():
    """Features of chance: a fit on all images is right of all, and knows nothing of others."""
    labels = torch.arange(300) % 3
    features = torch.randn(300, 400, generator=torch.Generator().manual_seed(0))
    fitted = RidgePath(features, labels).layer(1e-3).logits(features).argmax(1)
    assert (fitted == labels).all()
    score = transfer_score(features, labels)
    assert score.ridge < 0.5 and score.neighbours < 0.5


def test_a_fold_is_read_by_a_layer_of_the_others():
    """Features of mean 0 and spread 1 in every fold: then the fit of the others is a plain one."""
    digits = datasets.load("digits", "train")
    pixels, labels = digits.images[:200].flatten(1).float(), digits.labels[:200]
    score = transfer_score(pixels, labels, folds=2)
    fold = torch.empty_like(labels)
    for label in range(10):
        own = (labels == label).nonzero().flatten()
        fold[own] = torch.arange(len(own)) % 2
    right = 0
    for each in (0, 1):
        out = fold == each
        votes = neighbours(pixels[~out], labels[~out], pixels[out], 20, 10)
        right += (votes.argmax(1) == labels[out]).sum().item()
    assert score.neighbours == pytest.approx(right / 200)
    assert 0.85 < score.ridge < 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"folds": 1}, "1 folds: expected a whole number from 2 on"),
        ({"labels": torch.tensor([0, 0, 1, 1, 2])}, "class 2 has one image: expected two or more"),
    ],
)
def test_what_cannot_be_scored(change, said):
    given = {"features": torch.rand(5, 2), "labels": torch.tensor([0, 0, 1, 1, 1])}
    with pytest.raises(ValueError, match=said):
        transfer_score(**given | change)


def test_a_projection_keeps_what_stands_in_all_features_and_loses_what_stands_in_many():
    labels = torch.arange(200) % 4
    noise = torch.randn(200, 64, generator=torch.Generator().manual_seed(0))
    alike = torch.eye(4)[labels].repeat(1, 16) + 0.1 * noise  # four kinds of features, each often
    assert projected_scores(alike, labels, 8) == (1, 1, 1, 1, 1)
    full = transfer_score(noise + torch.eye(4)[labels].repeat(1, 16), labels).ridge
    scores = projected_scores(noise + torch.eye(4)[labels].repeat(1, 16), labels, 4)
    assert len(set(scores)) > 1 and max(scores) < full - 0.05
    assert scores == projected_scores(
        1000 * (noise + torch.eye(4)[labels].repeat(1, 16)), labels, 4
    )


@pytest.mark.parametrize("width", [0, 3])
def test_combinations_that_cannot_be_made(width):
    with pytest.raises(ValueError, match="combinations of 2 features: expected a whole number"):
        projected_scores(torch.rand(8, 2), torch.arange(8) % 2, width)
    with pytest.raises(ValueError, match="0 draws"):
        projected_scores(torch.rand(8, 2), torch.arange(8) % 2, 1, draws=0)


@pytest.mark.parametrize("features", [torch.ones(40, 3), torch.arange(40)[:, None] // 4 * 1.0])
def test_features_that_say_nothing_are_at_chance(features):
    """All answers are equal then, and the last bit must not know what was left out."""
    score = transfer_score(features, torch.arange(40) % 4)
    assert score.ridge == score.neighbours == 0.25
