"""Tokens swapped at every block, and the measurement of causes, on models of digits."""

import numpy as np
import pytest
import torch

import vitbook
from vitbook import datasets
from vitbook.analysis import list_blocks, patched_logits
from vitbook.layers import ClassAndMeanHead
from vitbook.models.weights.pretrained import Pretrained
from vitbook.studies import interventions as study
from vitbook.studies.interventions import causes
from vitbook.studies.interventions.classes import among
from vitbook.studies.interventions.swaps import all_sets, parts_of_tokens, swapped_logits

NAMES = tuple("0123456789")


@pytest.fixture
def model():
    torch.manual_seed(0)
    found = vitbook.load_checkpoint("digits-vit_micro_patch2_8-digits-seed0").model.eval()
    found.head = ClassAndMeanHead(64, 10)
    return found


def test_parts_hold_each_token_once_and_sets_are_their_unions():
    parts = parts_of_tokens((4, 4))
    assert parts.sum(0).tolist() == [1] * 17 and parts.sum(1).tolist() == [4, 4, 4, 4, 1]
    assert parts[1].nonzero().flatten().tolist() == [3, 4, 7, 8]
    sets = all_sets(parts)
    assert len(sets) == 32 and not sets[0].any() and sets[31].all()
    assert torch.equal(sets[18], parts[1] | parts[4])


@torch.no_grad()
def test_each_block_and_set_is_what_patching_gives(model):
    one, other = torch.rand(2, 2, 1, 8, 8)
    sets = all_sets(parts_of_tokens((4, 4)))[[0, 6, 17, 31]]
    front, *found = swapped_logits(model, one, other, sets)
    torch.testing.assert_close(front[0], model(one))
    torch.testing.assert_close(front[3], model(other))
    assert len(found) == 4
    for path, logits in zip(list_blocks(model), found, strict=True):
        for rows, given in zip(sets, logits, strict=True):
            wanted = patched_logits(model, one, other, path, rows.nonzero().flatten())
            torch.testing.assert_close(given, wanted)


def test_a_head_of_fewer_classes_gives_the_same_logits(model):
    images = torch.rand(2, 1, 8, 8)
    whole = model(images)
    few = among(Pretrained("small", model, NAMES, {}, (0.5,), (0.5,)), ("7", "2"))
    assert few.class_names == ("7", "2")
    torch.testing.assert_close(few.model(images), whole[:, [7, 2]])


def test_in_the_shipped_answers_nothing_changes_nothing_and_all_is_the_others():
    answers, classes = study.swapped_answers()
    for found in answers.values():
        assert found.shape == (13, 32, len(classes))
        for set_ in (0, 31):
            assert np.abs(found[:, set_] - found[0, set_]).max() < 0.01
        assert np.abs(found[0, :16] - found[0, 16:]).max() < 0.01, "at first class tokens are alike"


def test_measurements_of_causes(model, monkeypatch, tmp_path):
    stands = Pretrained("small", model, NAMES, {"digest": "0"}, (0.5,), (0.5,))
    monkeypatch.setattr(causes, "load_pretrained", lambda name, **given: stands)
    photos = datasets.load("digits", "test").images[:9]
    load = datasets.load
    monkeypatch.setattr(
        datasets,
        "load",
        lambda name, *more: (
            load(name, *more) if name != "photos" else type("Photos", (), {"images": photos})
        ),
    )
    for name, value in {"DATASET": "digits", "SIZE": 8, "CLASSES": NAMES, "TAUGHT": 12}.items():
        monkeypatch.setattr(causes, name, value)
    cost, lens = causes.lens_by_block(out=tmp_path, device="cpu")
    patched, added = causes.patched_pairs(pairs=12, out=tmp_path, device="cpu")
    assert [row["probe"] for row in cost.rows] == [
        "patched_logits", "logit_lens", "logit_contributions"
    ]  # fmt: skip
    assert [row["block"] for row in lens.rows] == [1, 2, 3, 4]
    front, behind = patched.rows[:2], patched.rows[-2:]
    assert {row["tokens"]: row["other"][0] for row in front} == {"class token": 0, "patches": 1}
    assert len(patched.rows) == 10 and all(row["same_class"][0] <= 1 for row in behind)
    assert len(added.rows) == 8 and added.settings["pairs"] == 6
