"""Which classes are asked about, and what the command refuses before hours go by."""

import pytest
import torch

from vitbook.__main__ import main
from vitbook.commands.collages import known_classes


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
    ("words", "said"),
    [
        (["mnist"], "head of vit_small_patch14_focus 'mnist'"),
        (["tiny_imagenet", "--model", "vit_nano"], "vit_nano"),
        (["tiny_imagenet", "--collages", "1"], "2"),
        (["tiny_imagenet", "--out", "/proc/x"], "/proc"),
    ],
)
def test_bad_words_are_refused_at_once(words, said, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["vitbook", "collages", *words])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert said in capsys.readouterr().err
