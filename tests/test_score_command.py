import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

import vitbook
from vitbook import analysis, datasets, runs
from vitbook.__main__ import app, main
from vitbook.analysis import CNN_EXPLANATIONS, EXPLANATIONS
from vitbook.training import save_checkpoint

READER = "cluttered_digits-vit_micro_r5_s4_32-cluttered-seed0"


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """What the command prints and writes of two images."""
    out = tmp_path_factory.mktemp("scored")
    words = ["score", READER, "--images", "2", "--out", str(out), "--device", "cpu"]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert not done.exit_code
    (row,) = runs.measurements(folder=out)
    return done.stdout, row


def refused(capsys, monkeypatch, *words):
    monkeypatch.setattr("sys.argv", ["vitbook", "score", *map(str, words)])
    with pytest.raises(SystemExit, match="2"):
        main()
    (line,) = capsys.readouterr().err.strip().splitlines()
    return line


def test_two_versions_of_a_checkpoint_have_rows_of_their_own(tmp_path, capsys, monkeypatch):
    (tmp_path / "explanations-own.v2.json").mkdir()
    line = refused(capsys, monkeypatch, tmp_path / "own.v2", "--out", tmp_path)
    assert "explanations-own.v2.json" in line and "no plain file" in line


def test_a_line_for_each_explanation_its_twin_and_the_nulls(scored):
    told, row = scored
    names = [line["name"] for line in row.rows]
    expected = [each for name in EXPLANATIONS for each in (name, f"{name}, untrained twin")]
    assert names == [*expected, "edges", "centre", "random", "the mask"]
    assert [line["name"] for line in row.rows if line["knows_model"]] == list(EXPLANATIONS)
    assert all(name in told for name in names) and told.strip().endswith(f"{row.name}.json")
    assert (row.kind, row.subject, row.settings["pictures"]) == ("explanations", READER, 2)
    for line in row.rows:
        for score in ("pointing", "deletion", "insertion"):
            mean, low, high = line[score]
            assert 0 <= low <= mean <= high <= 1
            assert f"{mean:.3f} [{low:.3f}, {high:.3f}]" in told


def test_the_numbers_are_the_librarys(scored):
    lines = {line["name"]: line for line in scored[1].rows}
    model = vitbook.load_checkpoint(READER).model
    data, masks = datasets.load("cluttered_digits", "test"), datasets.digit_masks("test")[:2]
    images, targets = datasets.normalize(data.images[:2]), data.labels[:2]
    rollout, edges = analysis.attention_rollout(model, images), analysis.edge_maps(images, (8, 8))
    areas = [analysis.deletion(model, images, targets, map).areas for map in (rollout, edges)]
    assert lines["rollout"]["deletion"][0] == pytest.approx(areas[0].mean().item(), abs=1e-3)
    lead = (areas[1] - areas[0]).mean().item()
    assert lines["rollout"]["deletion lead"][0] == pytest.approx(lead, abs=1e-3)
    assert lines["rollout"]["pointing"][0] == pytest.approx(
        analysis.pointing(rollout, masks).mean().item(), abs=1e-3
    )


def test_the_twin_is_not_the_model(scored):
    lines = {line["name"]: line for line in scored[1].rows}
    assert {name for name, line in lines.items() if line["twin"]} == set(EXPLANATIONS)
    mean, low, high = lines["integrated gradients"]["twin"]
    assert -1 <= low <= mean <= high < 0.999
    assert lines["rollout"]["insertion"] != lines["rollout, untrained twin"]["insertion"]


def test_what_cannot_be_scored(capsys, monkeypatch, tmp_path):
    digits = "digits-vit_micro_patch2_8-digits-seed0"
    told = refused(capsys, monkeypatch, digits)
    assert "learned from digits, whose images do not say where their answer lies" in told
    assert "expected a checkpoint of cluttered_digits" in told
    assert "no checkpoint nothing: train one" in refused(capsys, monkeypatch, "nothing")
    text = tmp_path / "text.safetensors"
    text.write_text("no weights")
    assert str(text) in refused(capsys, monkeypatch, text)
    foreign = tmp_path / "foreign.safetensors"
    save_file({"weight": torch.zeros(1)}, foreign)
    assert str(foreign) in refused(capsys, monkeypatch, foreign)


@pytest.fixture(scope="module")
def cnn(tmp_path_factory):
    """A ResNet with fresh weights that says it has learned the same data."""
    file = tmp_path_factory.mktemp("cnn") / "small.safetensors"
    model = vitbook.create_model("resnet8_digits", image_size=32)
    save_checkpoint(file, model, provenance={"dataset": "cluttered_digits"})
    return file


def test_a_cnn_beside_it_is_scored_on_itself(cnn, tmp_path):
    words = ["score", READER, "--beside", str(cnn), "--against", "relevance"]
    words += ["--images", "2", "--out", str(tmp_path), "--device", "cpu"]
    CliRunner().invoke(app, words, catch_exceptions=False)
    (row,) = runs.measurements(folder=tmp_path)
    assert row.subject == f"{READER}-beside-small" and row.settings["against"] == "relevance"
    lines = {line["name"]: line for line in row.rows}
    theirs = [f"{name}, small" for name in CNN_EXPLANATIONS]
    assert [*lines][-2 * len(theirs) :: 2] == theirs
    assert [n for n, line in lines.items() if line["knows_model"]] == [*EXPLANATIONS, *theirs]
    assert lines["relevance"]["pointing lead"] == [0, 0, 0]
    assert all(line["deletion lead"] is line["insertion wins"] is None for line in row.rows)
    model = vitbook.load_checkpoint(cnn).model
    data, masks = datasets.load("cluttered_digits", "test"), datasets.digit_masks("test")[:2]
    images, targets = datasets.normalize(data.images[:2]), data.labels[:2]
    cam = analysis.map_grad_cam(model, images, targets)
    line = lines["Grad-CAM, small"]
    hits = analysis.pointing(cam, masks).mean().item()
    assert line["pointing"][0] == pytest.approx(hits, abs=1e-3)
    area = analysis.deletion(model, images, targets, cam).areas.mean().item()
    assert line["deletion"][0] == pytest.approx(area, abs=1e-3)


def test_a_cnn_alone(cnn, tmp_path):
    words = ["score", str(cnn), "--images", "2", "--out", str(tmp_path), "--device", "cpu"]
    CliRunner().invoke(app, words, catch_exceptions=False)
    (row,) = runs.measurements(folder=tmp_path)
    known = [line["name"] for line in row.rows if line["knows_model"]]
    assert known == list(CNN_EXPLANATIONS)


def test_what_cannot_stand_beside(cnn, capsys, monkeypatch, tmp_path):
    digits = "digits-vit_micro_patch2_8-digits-seed0"
    out = ("--out", tmp_path)
    assert "learned from digits" in refused(capsys, monkeypatch, READER, "--beside", digits, *out)
    told = refused(capsys, monkeypatch, READER, "--beside", READER, *out)
    assert "stands there 2 times" in told
    told = refused(capsys, monkeypatch, READER, "--against", "relevence", *out)
    assert "relevence" in told and "relevance" in told
    told = refused(capsys, monkeypatch, cnn, "--against", "rollout", *out)  # no attention
    assert "rollout" in told
    named = tmp_path / "untrained twin.safetensors"
    named.write_bytes(cnn.read_bytes())
    told = refused(capsys, monkeypatch, cnn, "--beside", named, *out)
    assert "untrained twin is called as an explanation is: rename the file" in told
    for wrong, said in (
        ({"num_classes": 3}, "1 channels of 32 px and 3 classes"),
        ({"image_size": 64}, "1 channels of 64 px and 10 classes"),
        ({"channels": 3}, "3 channels of 32 px and 10 classes"),
    ):
        model = vitbook.create_model("resnet8_digits", **{"image_size": 32} | wrong)
        save_checkpoint(tmp_path / "other", model, provenance={"dataset": "cluttered_digits"})
        told = refused(capsys, monkeypatch, READER, "--beside", tmp_path / "other", *out)
        assert f"other takes {said}: expected 1 channels of 32 px and 10 classes" in told
