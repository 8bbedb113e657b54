import pytest
import torch

from vitbook.training.transfer.halves import FOLDS, _folds, score_halves


def test_features_that_say_nothing_score_at_chance():
    torch.manual_seed(0)
    labels = torch.arange(400) % 4
    scores = score_halves(torch.randn(400, 10), labels)
    assert len(scores) == 5 and len(set(scores)) > 1
    assert 0.15 < sum(scores) / 5 < 0.35


def test_a_half_is_scored_on_images_that_it_has_not_seen():
    torch.manual_seed(0)
    # More features than images: a fit that saw the asked half would be right everywhere.
    scores = score_halves(torch.randn(100, 300), torch.arange(100) % 2)
    assert max(scores) < 0.75


def test_the_folds_share_each_class():
    labels = torch.arange(100) % 4
    folds = _folds(labels)
    for label in range(4):
        assert torch.bincount(folds[labels == label], minlength=FOLDS).tolist() == [5] * FOLDS


def test_labels_of_any_whole_numbers(plain_vitbook):
    plain_vitbook("""
        import torch
        from vitbook.training.transfer.halves import score_halves
        labels, features = torch.arange(40) % 2, torch.randn(40, 3)
        for kind in (torch.uint8, torch.int32):
            assert score_halves(features, labels.to(kind)) == score_halves(features, labels)
    """)


@pytest.mark.parametrize(
    ("number", "draws", "said"),
    [(40, 1, "1 draws: expected a whole number from 2 on"), (19, 5, "19 images: expected 20")],
)
def test_too_little_is_refused(number, draws, said):
    with pytest.raises(ValueError, match=said):
        score_halves(torch.randn(number, 3), torch.arange(number) % 2, draws)
