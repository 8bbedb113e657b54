"""Which classes are asked about, and what the command refuses before hours go by."""

import pytest
import torch

import vitbook
from vitbook.__main__ import app, main
from vitbook.cli import collages as command
from vitbook.cli.collages import known_classes
from vitbook.models.weights.pretrained import Pretrained


def clouds(sure: int, unsure: int, each: int = 60):
    """Features that tell the first classes apart, and say nothing of the others."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(sure + unsure).repeat_interleave(each)
    centres = torch.zeros(sure + unsure, 12)
    centres[:sure, :sure] = 9 * torch.eye(sure)
    return centres[labels] + torch.randn(len(labels), 12, generator=generator), labels


def test_the_most_classes_that_a_head_knows_are_kept():
    features, labels = clouds(sure=6, unsure=5)
    recall = torch.tensor([0.9, 0.8, 0.95, 0.7, 0.85, 0.75, 0.2, 0.1, 0.3, 0.0, 0.15])
    kept, head = known_classes(features, labels, recall)
    assert sorted(kept[:6].tolist()) == list(range(6)) and kept[0] == 2
    assert 6 <= len(kept) <= 7  # one that is unknown may hide among six that are known
    assert sum(head.recall) / len(kept) >= 0.9 and len(head.weight) == len(kept)
    inside = torch.isin(labels, kept)
    answers = kept[head.logits(features[inside]).argmax(1)]
    assert (answers == labels[inside]).float().mean() > 0.9


def test_no_classes_known_so_well_is_one_sentence():
    features, labels = clouds(sure=0, unsure=6)
    with pytest.raises(ValueError, match=r"right on \d+% of its 4 best classes: expected 90%"):
        known_classes(features, labels, torch.arange(6) / 6)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--collages", "89"], "89 collages of four images: digits, test has 355; ask for fewer"),
        (["--share", "0.02"], "the rarest with 3: expected .* take a larger share"),
    ],
)
def test_what_cannot_be_drawn_is_refused_before_any_features(monkeypatch, tmp_path, words, told):
    own = vitbook.load_checkpoint("digits-vit_micro_patch2_8-digits-seed0").model
    head = {"head": {"recall_in_training": [0.9] * 10}}
    stands = Pretrained("small", own, tuple("0123456789"), head, (0.5,), (0.5,))
    monkeypatch.setattr(command, "load_pretrained", lambda name, **options: stands)
    monkeypatch.setattr(command, "frozen_features", lambda *given: 1 / 0)
    with pytest.raises(ValueError, match=told):
        app(["collages", "digits", "--out", str(tmp_path), *words], standalone_mode=False)


def test_a_place_that_is_taken_is_told_before_the_work(monkeypatch, tmp_path):
    monkeypatch.setattr(command, "load_pretrained", lambda *a, **k: 1 / 0)
    (tmp_path / "collages-vit_small_patch14_focus-digits.json").mkdir()
    with pytest.raises(OSError, match="it is no plain file; choose another folder"):
        app(["collages", "digits", "--out", str(tmp_path)], standalone_mode=False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["mnist"], "unknown data set 'mnist'"),
        (["tiny_imagenet", "--model", "vit_nano"], "vit_nano"),
        (["tiny_imagenet", "--collages", "1"], "2"),
        (["tiny_imagenet", "--out", "/proc/x"], "/proc"),
        (["tiny_imagenet", "--seed", "-1"], "greater than or equal to 0"),
    ],
)
def test_bad_words_are_refused_at_once(words, said, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["vitbook", "collages", *words])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert said in capsys.readouterr().err
