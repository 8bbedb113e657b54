"""Tau as scipy has it, the ranking of frozen bodies, and scores without a leak."""

from dataclasses import replace
from shutil import copyfile

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from vitbook import datasets, runs
from vitbook.files import data_folder
from vitbook.studies import fine_tuning as study
from vitbook.studies.fine_tuning import tables
from vitbook.studies.fine_tuning.claims import evidence
from vitbook.studies.fine_tuning.head_first import head_first
from vitbook.studies.fine_tuning.scores import (
    agreement,
    projected_scores,
    rank,
    transfer_score,
)
from vitbook.training.transfer.neighbours import neighbours
from vitbook.training.transfer.ridge import RidgePath

# Few values, so that many are equal; some without a score.
NUMBERS = st.integers(0, 4) | st.floats(-1e9, 1e9)
ROWS = st.lists(st.tuples(NUMBERS | st.none(), NUMBERS), min_size=2, max_size=9)


@settings(deadline=None, max_examples=150)
@given(ROWS)
def test_tau_is_that_of_scipy(rows):
    found = agreement(*zip(*rows, strict=True))
    known = [row for row in rows if row[0] is not None]
    tau = kendalltau(*zip(*known, strict=True)).statistic if len(known) > 1 else np.nan
    if np.isnan(tau):
        assert found.tau is None
    else:
        assert found.tau == pytest.approx(tau, abs=1e-12)
    assert found.right + found.wrong <= found.pairs


FRESH = "vit_micro_patch2_8"
MICRO = "digits-vit_micro_patch2_8-digits-seed0"
RESNET = "digits-resnet8_digits-digits-seed0"
SMALL = {"share": 0.2, "threads": 1, "device": "cpu"}


def test_learned_features_score_above_fresh_ones(tmp_path, capsys):
    # A file in a folder with an @ is a file.
    file = tmp_path / "runs@home" / "ü.safetensors"
    file.parent.mkdir()
    copyfile(data_folder() / "checkpoints" / f"{MICRO}.safetensors", file)
    asked = [FRESH, MICRO, RESNET, f"{FRESH}@12", str(file), f"{file}@12"]
    given = {"dataset": "digits", "models": asked, "out": tmp_path, **SMALL}
    (row,) = rank(**given)
    assert row.subject == "digits" and row.settings["training_images"] == 288
    lines = {(line["model"], line["image_size"]): line for line in row.rows}
    bodies = {(FRESH, 8), (FRESH, 12), (MICRO, 8), (RESNET, 8), (str(file), 8), (str(file), 12)}
    assert set(lines) == bodies
    assert [line["ridge"] for line in row.rows] == sorted(
        (line["ridge"] for line in row.rows), reverse=True
    )
    for learned in (MICRO, RESNET):
        assert lines[learned, 8]["ridge"] > 0.95 > lines[FRESH, 8]["ridge"]
        assert lines[learned, 8]["neighbours"] > lines[FRESH, 8]["neighbours"]
    assert lines[MICRO, 8]["learned_from"] == "digits"
    assert lines[FRESH, 8]["learned_from"] == "nothing"
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split() == ["model", "pixels", "ridge", "neighbours", "learned", "from"]
    assert rank(**given)[0].rows == row.rows  # from the kept features


def test_ridge_reads_as_many_combinations_of_each_body(tmp_path, capsys):
    (row,) = rank(dataset="digits", models=[MICRO, RESNET], width=3, out=tmp_path, **SMALL)
    assert row.settings["projected_width"] == 3
    for line in row.rows:
        scores = line["ridge_projected"]
        assert len(scores) == 5 and 0.5 < sum(scores) / 5 < line["ridge"]
    assert "ridge of mixes" in capsys.readouterr().out


def test_features_that_are_the_classes_are_read_without_a_mistake():
    labels = torch.arange(40) % 4
    score = transfer_score(torch.eye(4)[labels] + 0.01 * torch.randn(40, 4), labels, 4)
    assert score.ridge == score.neighbours == 1


def test_no_image_is_read_by_what_it_taught_itself():
    """Features of chance: a fit on all images is right of all, and knows nothing of others."""
    labels = torch.arange(300) % 3
    features = torch.randn(300, 400, generator=torch.Generator().manual_seed(0))
    fitted = RidgePath(features, labels).layer(1e-3).logits(features).argmax(1)
    assert (fitted == labels).all()
    score = transfer_score(features, labels, 3)
    assert score.ridge < 0.5 and score.neighbours < 0.5


def test_a_fold_is_read_by_a_layer_of_the_others():
    """Features of mean 0 and spread 1 in every fold: then the fit of the others is a plain one."""
    digits = datasets.load("digits", "train")
    pixels, labels = digits.images[:200].flatten(1).float(), digits.labels[:200]
    score = transfer_score(pixels, labels, 10, folds=2)
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


def test_a_projection_keeps_what_stands_in_all_features_and_loses_what_stands_in_many():
    labels = torch.arange(200) % 4
    noise = torch.randn(200, 64, generator=torch.Generator().manual_seed(0))
    alike = torch.eye(4)[labels].repeat(1, 16) + 0.1 * noise  # four kinds of features, each often
    assert projected_scores(alike, labels, 8, 4) == (1, 1, 1, 1, 1)
    full = transfer_score(noise + torch.eye(4)[labels].repeat(1, 16), labels, 4).ridge
    scores = projected_scores(noise + torch.eye(4)[labels].repeat(1, 16), labels, 4, 4)
    assert len(set(scores)) > 1 and max(scores) < full - 0.05
    assert scores == projected_scores(
        1000 * (noise + torch.eye(4)[labels].repeat(1, 16)), labels, 4, 4
    )


def test_what_cannot_be_scored():
    with pytest.raises(ValueError, match="class 2 has one image: expected two or more"):
        transfer_score(torch.rand(5, 2), torch.tensor([0, 0, 1, 1, 2]), 3)
    with pytest.raises(ValueError, match="3 combinations of 2 features: expected a whole number"):
        projected_scores(torch.rand(8, 2), torch.arange(8) % 2, 3, 2)


@pytest.mark.parametrize("features", [torch.ones(40, 3), torch.arange(40)[:, None] // 4 * 1.0])
def test_features_that_say_nothing_are_at_chance(features):
    """All answers are equal then, and the last bit must not know what was left out."""
    score = transfer_score(features, torch.arange(40) % 4, 4)
    assert score.ridge == score.neighbours == 0.25


def test_a_head_that_learns_first_leaves_the_body_until_then(tmp_path):
    (row,) = head_first(draws=1, out=tmp_path, threads=1, device="cpu")
    (kept,) = runs.measurements("head_first", "digits")
    assert row.settings | {"draws": 8} == kept.settings and row.settings["steps"] == 24
    found = {(line["way"], line["rate"]): line for line in row.rows}
    assert found["head alone", 0]["changed"] == 0
    assert found["head first", 3e-4]["changed"] < found["all at once", 3e-4]["changed"] / 3
    for line, known in zip(row.rows, kept.rows, strict=True):
        assert line["shifted"][0] == pytest.approx(known["shifted"][0], abs=3)


def test_the_evidence_says_what_the_chapter_says():
    found = evidence()
    verdicts = {claim.name: found.verdict(claim.name) for claim in found.claims}
    assert (verdicts["Start"], verdicts["Adapters"]) == ("shows", "open")
    assert verdicts["Learned elsewhere"] == "agrees"
    assert {len(set(claim.comparison.steps)) for claim in found.claims} == {1}
    tables = {table.title: table.lines for table in found.tables}
    alone = next(iter(tables["The head first, or all at once"]))
    assert alone["way"] == "head alone" and alone["features changed"] == "0.00"
    read = {
        line["block"]: float(line["ridge"].split("%")[0]) for line in tables["Which block to read"]
    }
    assert max(read, key=read.get) == "9" and len(read) == 12


def test_one_basis_colours_the_same_token_alike_at_all_sizes():
    tokens = torch.randn(16, 8, generator=torch.Generator().manual_seed(0))
    first, same, far = study.colors_in(tokens, tokens[:4], 100 + tokens[:9])
    assert (first.shape, same.shape, far.shape) == ((3, 4, 4), (3, 2, 2), (3, 3, 3))
    assert torch.equal(first.flatten(1)[:, :4], same.flatten(1))
    assert not torch.equal(first.flatten(1)[:, :9], far.flatten(1))


def test_tokens_of_a_smaller_grid_are_compared_with_those_at_their_place():
    tokens = torch.randn(2, 16, 8, generator=torch.Generator().manual_seed(0))
    assert study.alike(tokens, tokens) == pytest.approx(1)
    assert abs(study.alike(tokens.flip(1), tokens)) < 0.5
    large = tokens.unflatten(1, (4, 4)).repeat_interleave(2, 1).repeat_interleave(2, 2)
    assert study.alike(tokens, large.flatten(1, 2)) > 0.9


def test_three_sizes_stand_on_the_evidence_once_they_are_measured(monkeypatch):
    rows = [
        {"model": "efficientnet_lite0", "printed": 75.1, "frozen": [0.9, 0.8, 0.7],
         "tuned": [0.9, 0.9, 0.6], "speed": [1, 1, 1], "parameters": 4_000_000, "macs": 1},
        {"model": "fresh", "printed": None, "frozen": [0.4, 0.5, 0.6], "tuned": [0.5, 0.6, 0.7],
         "speed": [1, 1, 1], "parameters": 4_000_000, "macs": 1},
    ]  # fmt: skip
    (given,) = runs.measurements("head_first", "digits")
    settings = {"dataset": "flowers", "training_images": 735, "test_images": 731}
    made = replace(given, kind="pretrained_sizes", settings=settings, rows=rows)
    monkeypatch.setattr(runs, "measurements", lambda kind, subject=None: [made])
    (table,) = tables._upstream()
    assert [line["ImageNet, printed"] for line in table.lines] == ["75.1 %", "–"]
    assert table.lines[0]["frozen, ridge"] == "80.0 ± 10.0, 3 seeds"


def test_scores_order_the_cards_little_better_than_the_alphabet_or_worse():
    cards = study.candidates()
    ridge, alphabet = study.pairs_in_order(cards, "ridge"), study.pairs_in_order(cards)
    assert study.pairs_in_order(cards, "neighbours").right < alphabet.right
    assert ridge.pairs == alphabet.pairs == 28 and 0 < ridge.right - alphabet.right < 4
    assert study.pairs_in_order(cards, "accuracy on CIFAR-10").words == "10 of 10 pairs"
