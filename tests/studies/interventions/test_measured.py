from math import comb

import pytest
import torch

import vitbook
from vitbook import datasets
from vitbook.models.weights.pretrained import Pretrained
from vitbook.studies.interventions import ablate_heads, ablation, collage
from vitbook.studies.interventions.ablation import ablate
from vitbook.studies.interventions.collage import collages, known_classes
from vitbook.studies.interventions.head_sets import (
    Trial,
    comparable,
    compare_kinds,
    random_sets,
    single_heads,
)
from vitbook.studies.interventions.kinds import HeadKinds

NUMBERS = torch.zeros(4, 4)
NAMES = (
    ("idle", "content", "content", "content"),
    ("near", "near", "offset", "other"),
    ("near", "other", "other", "other"),
    ("other", "other", "other", "other"),
)
KINDS = HeadKinds(NAMES, NUMBERS, NUMBERS, NUMBERS, NUMBERS)
DIGITS = "digits-vit_micro_patch2_8-digits-seed0"


@pytest.fixture(scope="module")
def trial():
    """Of a shipped model and digits that it did not learn from."""
    data = datasets.load("digits", "test")
    model = vitbook.load_checkpoint(DIGITS).model.eval()
    return Trial(model, datasets.normalize(data.images[:12]), data.labels[:12], None)


def test_a_crowded_layer_is_left_out():
    assert comparable(KINDS, "content") == []
    assert comparable(KINDS, "near") == [(1, 0), (1, 1), (2, 0)]
    assert comparable(KINDS, "idle") == [(0, 0)]


def test_random_heads_are_as_many_of_other_kinds_in_the_same_layers():
    near = comparable(KINDS, "near")
    every = random_sets(KINDS, "near", near, 10, seed=0)  # of two, two; of three, one
    assert sorted(map(sorted, every)) == [[(1, 2), (1, 3), (2, head)] for head in (1, 2, 3)]
    other = comparable(KINDS, "offset")
    assert sorted(random_sets(KINDS, "offset", other, 10, 0)) == [[(1, h)] for h in (0, 1, 3)]
    some = random_sets(KINDS, "offset", other, 2, seed=0)
    assert len({tuple(heads) for heads in some}) == 2
    assert some == random_sets(KINDS, "offset", other, 2, seed=0)
    assert random_sets(KINDS, "content", [], 2, seed=0) == []
    wide = HeadKinds((("near",) * 3 + ("other",) * 9,) * 2, *[torch.zeros(2, 12)] * 4)
    many = random_sets(wide, "near", comparable(wide, "near"), 50, seed=1)
    assert len({frozenset(heads) for heads in many}) == 50 < comb(9, 3) ** 2
    for heads in many:
        assert [sum(layer == each for each, _ in heads) for layer in (0, 1)] == [3, 3]
        assert all(wide.names[layer][head] == "other" for layer, head in heads)


@torch.no_grad()
def test_what_is_run_from_the_middle_on_is_the_whole_model(trial):
    heads = [(2, 1), (3, 0)]
    trial.run([heads, [(1, 1)]])
    with ablate_heads(trial.model, heads):
        logits = trial.model(trial.images)
    own = logits[torch.arange(12), trial.labels] - logits.mean(1)
    score, right = trial.outcome(heads)
    torch.testing.assert_close(score, own)
    assert torch.equal(right, logits.argmax(1) == trial.labels)
    torch.testing.assert_close(trial.drop(heads), trial.intact[0] - own)
    assert torch.equal(trial.drop([]), torch.zeros(12)) and trial.accuracy([]) > 0.9


def test_a_line_for_each_head_and_each_kind(trial):
    alone, heads = single_heads(trial, KINDS)
    assert [(row["layer"], row["head"]) for row in heads] == [
        (layer, head) for layer in range(1, 5) for head in range(1, 5)
    ]
    assert heads[5]["kind"] == "near"
    idle, near, offset, content = compare_kinds(trial, KINDS, alone, 10, seed=0)
    assert near["heads"] == near["compared"] == [[2, 1], [2, 2], [3, 1]]
    assert len(near["random_drops"]) == 3 and content["left_out"] == [1]
    assert content["compared_drop"] is content["lead"] is None and content["drop"] is not None
    gaps = [alone[1, 0] + alone[1, 1] - alone[1, 2] - alone[1, 3]]
    gaps += [alone[2, 0] - (alone[2, 1] + alone[2, 2] + alone[2, 3]) / 3]
    assert near["alone_lead"][0] == pytest.approx(sum(gaps).mean().item() / 3, abs=1e-3)
    lead = near["compared_drop"][0] - sum(near["random_drops"]) / 3
    assert near["lead"][0] == pytest.approx(lead, abs=1e-3)
    assert idle["drop"] == heads[0]["drop"] == idle["alone"]
    assert offset["accuracy"] == heads[6]["accuracy"]


def test_heads_that_nobody_reads_lose_nothing_and_lead_nothing():
    """The null: the same labels of kinds on a model without attention."""
    data = datasets.load("digits", "test")
    model = vitbook.load_checkpoint(DIGITS).model.eval()
    for block in model.encoder.blocks:
        torch.nn.init.zeros_(block.attention.projection.weight)
    blind = Trial(model, datasets.normalize(data.images[:2]), data.labels[:2], None)
    alone, _ = single_heads(blind, KINDS)
    for row in compare_kinds(blind, KINDS, alone, 3, seed=0):
        assert row["drop"] == [0, 0, 0]
        assert row["lead"] == (None if row["kind"] == "content" else [0, 0, 0])


@pytest.fixture
def digits(monkeypatch):
    """The digits model in the place of the pretrained one, whose weights may not be here."""
    own = vitbook.load_checkpoint(DIGITS).model
    about = {"digest": "0", "head": {"recall_in_training": [0.9] * 10}}
    stands = Pretrained("small", own, tuple("0123456789"), about, (0.5,), (0.5,))
    for module in (ablation, collage):
        monkeypatch.setattr(module, "load_pretrained", lambda name, **options: stands)


def test_both_rows_of_an_ablation(digits, monkeypatch, tmp_path):
    load, photos = datasets.load, datasets.take_share(datasets.load("digits", "test"), 0.05)
    monkeypatch.setattr(
        datasets, "load", lambda *name: photos if name[0] == "photos" else load(*name)
    )
    asked = {"dataset": "digits", "num_images": 3, "draws": 2, "out": tmp_path, "device": "cpu"}
    by_kind, by_head = ablate(**asked)
    assert (by_kind.kind, by_head.kind) == ("ablation", "head_ablation")
    assert len(by_head.rows) == 16 and len(by_kind.rows) == 4
    assert by_kind.settings["photographs"] == 3 and by_kind.settings["reference_images"] == 64


def test_a_head_of_other_classes(monkeypatch, tmp_path):
    own = vitbook.load_checkpoint(DIGITS).model
    letters = Pretrained("small", own, tuple("abcdefghij"), {"digest": "0"}, (0.5,), (0.5,))
    monkeypatch.setattr(ablation, "load_pretrained", lambda name, head: letters)
    with pytest.raises(ValueError, match=r"small tells apart 10 classes \(a, b, c and 7 more\); "):
        ablate(dataset="digits", out=tmp_path)


def test_logits_that_are_no_numbers():
    data = datasets.load("digits", "test")
    model = vitbook.load_checkpoint(DIGITS).model.eval()
    with torch.no_grad():
        model.head.classifier.bias[3] = torch.nan
    with pytest.raises(ValueError, match="the logits hold NaN or infinity"):
        Trial(model, datasets.normalize(data.images[:8]), data.labels[:8], None)


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
        ({"number": 89}, "89 collages of four images: digits, test has 355; ask for fewer"),
        ({"share": 0.02}, "the rarest with 3: expected .* take a larger share"),
    ],
)
def test_what_cannot_be_drawn_is_refused_before_any_features(
    digits, monkeypatch, tmp_path, words, told
):
    monkeypatch.setattr(collage, "known_classes", lambda *given: 1 / 0)
    with pytest.raises(ValueError, match=told):
        collages(dataset="digits", out=tmp_path, **words)
