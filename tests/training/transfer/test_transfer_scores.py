"""Scores that tell a good starting point: right where the answer is known, and no leak."""

import pytest
import torch

from vitbook import datasets
from vitbook.training import projected_scores, transfer_score
from vitbook.training.transfer.neighbours import neighbours
from vitbook.training.transfer.ridge import ridge


def test_features_that_are_the_classes_are_read_without_a_mistake():
    labels = torch.arange(40) % 4
    score = transfer_score(torch.eye(4)[labels] + 0.01 * torch.randn(40, 4), labels)
    assert score.ridge == score.neighbours == 1


def test_no_image_is_read_by_what_it_taught_itself():
    """Features of chance: a fit on all images is right of all, and knows nothing of others."""
    labels = torch.arange(300) % 3
    features = torch.randn(300, 400, generator=torch.Generator().manual_seed(0))
    fitted = ridge(features, labels, 1e-3).logits(features).argmax(1)
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


def test_better_features_score_higher():
    digits = datasets.load("digits", "train")
    pixels = digits.images.flatten(1) / 255
    noise = torch.randn(pixels.shape, generator=torch.Generator().manual_seed(0))
    good, worse = (transfer_score(x, digits.labels) for x in (pixels, pixels + noise))
    assert good.ridge > worse.ridge and good.neighbours > worse.neighbours


def test_a_class_that_is_named_and_has_no_image():
    labels = torch.arange(20) % 2
    score = transfer_score(torch.eye(2)[labels], labels, num_classes=5)
    assert score.ridge == score.neighbours == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"folds": 1}, "1 folds: expected a whole number from 2 on"),
        ({"labels": torch.tensor([0, 0, 1, 1, 2])}, "class 2 has one image: expected two or more"),
        ({"labels": torch.tensor([0, 0, 0, 0, 0])}, "2 classes or more"),
        ({"features": torch.full((5, 2), torch.nan)}, "NaN or infinity"),
        ({"num_classes": 2, "labels": torch.tensor([0, 0, 1, 1, 2])}, "for 2 classes"),
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


def test_as_many_combinations_as_features_say_the_same():
    """A square mix can be undone, and nothing but the penalty's measure of length changes."""
    digits = datasets.load("digits", "train")
    pixels, labels = digits.images[:400].flatten(1).float(), digits.labels[:400]
    pixels = pixels[:, pixels.std(0) > 0]
    scores = projected_scores(pixels, labels, pixels.shape[1], draws=2)
    assert scores == pytest.approx((transfer_score(pixels, labels).ridge,) * 2, abs=0.03)


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


def test_features_of_any_kind_of_number():
    labels = torch.arange(40) % 4
    features = torch.eye(4)[labels] + 0.01 * torch.randn(40, 4)
    for each in (features.half(), features.bfloat16(), features.clone().requires_grad_()):
        score = transfer_score(each, labels)
        assert score.ridge == score.neighbours == 1


def test_what_the_shapes_refuse_too(plain_vitbook):
    plain_vitbook("""
        import pytest, torch
        from vitbook.training import projected_scores, transfer_score
        good, labels = torch.rand(8, 2), torch.arange(8) % 2
        for features, classes, number, error, said in (
            (good.tolist(), labels, None, TypeError, "features are list: expected a tensor"),
            (good.to(torch.complex64), labels, None, TypeError, "complex64: expected a tensor"),
            (good, labels.tolist(), None, TypeError, "labels are list: expected a tensor"),
            (good, labels, 2.0, TypeError, "2.0 classes: expected a whole number"),
            (good.to("meta"), labels, None, ValueError, "on meta with labels on cpu: expected one"),
            (good * 1e20, labels, None, ValueError, r"reach .e\\+(19|20): expected 1e\\+15 at"),
            (good.double() * -1e300, labels, None, ValueError, "expected 1e.15 at most; divide"),
        ):
            with pytest.raises(error, match=said):
                transfer_score(features, classes, number)
    """)
