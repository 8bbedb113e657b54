"""Scores that tell a good starting point: right where the answer is known, and no leak."""

import pytest
import torch

from vitbook import datasets
from vitbook.training import transfer_score
from vitbook.training.neighbours import neighbours
from vitbook.training.ridge import ridge


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
        from vitbook.training import transfer_score
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
