"""Pairs in the right order, tau as scipy has it, and the ranking of frozen bodies."""

from shutil import copyfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from vitbook.files import data_folder
from vitbook.studies.fine_tuning import agreement, rank

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
