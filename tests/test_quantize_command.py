from importlib.util import find_spec

import pytest
import torch
from typer.testing import CliRunner

import vitbook
from vitbook import datasets, runs
from vitbook.__main__ import app
from vitbook.training import SCHEMES, evaluate, save_checkpoint

pytestmark = pytest.mark.skipif(find_spec("torchao") is None, reason="torchao is not installed")
DIGITS = "digits-vit_micro_patch2_8-digits-seed0"


def quantize(folder, *words, model=DIGITS):
    return CliRunner().invoke(
        app,
        ["quantize", "digits", "--model", str(model), "--images", "60", "--rounds", "2",
         "--threads", "1", "--device", "cpu", "--out", str(folder), *words],
    )  # fmt: skip


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    done = quantize(folder)
    assert done.exit_code == 0, done.output
    found = {row.kind: row for row in runs.measurements(folder=folder)}
    return found, done.output


def test_a_row_for_each_scheme_and_why_one_is_refused(measured):
    rows = {row["scheme"]: row for row in measured[0]["quantization"].rows}
    assert list(rows) == ["float32", *SCHEMES]
    refused = {name: row["refused"] for name, row in rows.items() if row["refused"]}
    assert list(refused) == ["int4_packed"] and "torchao refuses" in refused["int4_packed"]
    assert rows["int4_packed"]["accuracy"] is None and rows["int4_packed"]["time"] is None
    assert rows["float32"]["difference"] == [0, 0, 0] and rows["float32"]["time"] == [1, 1, 1]
    assert rows["float32"]["megabytes"] > 3 * rows["int8_weights"]["megabytes"]
    for name, row in rows.items():
        if name not in refused:
            low, high = row["difference"][1:]
            assert row["accuracy"][1] <= row["accuracy"][0] <= row["accuracy"][2]
            assert low <= row["difference"][0] <= high and row["time"][0] > 0


def test_the_exact_accuracy_is_evaluate_s(measured):
    row = measured[0]["quantization"]
    drawn = torch.randperm(355, generator=torch.Generator().manual_seed(0))[:60]
    held_out = datasets.load("digits", "test")
    some = datasets.Dataset(
        held_out.images[drawn], held_out.labels[drawn], held_out.class_names, held_out.provenance
    )
    exact = evaluate(vitbook.load_checkpoint(DIGITS).model, some)
    assert row.rows[0]["accuracy"][0] == pytest.approx(exact, abs=1e-4)
    assert row.settings["images"] == 60 and row.settings["threads"] == 1


def test_each_place_is_rounded_by_itself(measured):
    rows = measured[0]["rounded_activations"].rows
    assert len(rows) == 4 * 3 * 3
    assert {row["place"] for row in rows} == {"stream", "norm", "softmax", "gelu"}
    eight = [row for row in rows if row["bits"] == 8 and row["steps"] == "token"]
    assert all(row["same_answers"] > 0.95 for row in eight)
    assert "stream" in measured[1] and "wrote" in measured[1]


def test_one_measurement_where_activations_stay(tmp_path):
    assert quantize(tmp_path, "--no-activations").exit_code == 0
    assert [row.kind for row in runs.measurements(folder=tmp_path)] == ["quantization"]


def said(done):
    assert done.exit_code != 0
    return " ".join(f"{done.exception} {done.output}".split())


def test_more_images_than_there_are(tmp_path):
    done = quantize(tmp_path, "--images", "400")
    assert "400 images of digits, test: it has 355" in said(done)
    assert not list(tmp_path.iterdir())


def test_a_model_of_other_classes_or_images(tmp_path):
    other = vitbook.create_model("vit_micro_patch2_8", num_classes=3)
    path = save_checkpoint(tmp_path / "own.safetensors", other)
    words = said(quantize(tmp_path / "runs", model=path))
    assert "has 3 classes, digits 10: expected a model that learned this data set" in words
    wide = vitbook.create_model("vit_micro_patch2_8", channels=3)
    path = save_checkpoint(tmp_path / "wide.safetensors", wide)
    assert "with 3 channels, digits has 1" in said(quantize(tmp_path / "runs", model=path))


def test_a_checkpoint_that_is_not_there(tmp_path):
    assert "no checkpoint" in said(quantize(tmp_path, model="digits-vit"))


def test_a_model_without_activations_to_round_keeps_its_first_measurement(tmp_path):
    path = save_checkpoint(tmp_path / "own.safetensors", vitbook.create_model("resnet8_digits"))
    assert "nothing was rounded: no stream of ResNet" in said(quantize(tmp_path, model=path))
    assert [row.kind for row in runs.measurements(folder=tmp_path)] == ["quantization"]


def test_two_versions_of_a_checkpoint_have_rows_of_their_own(tmp_path):
    (tmp_path / "quantization-own.v2-digits.json").mkdir()
    words = said(quantize(tmp_path, model=tmp_path / "own.v2"))
    assert "quantization-own.v2-digits.json" in words and "no plain file" in words
