from importlib import import_module

import pytest
import torch
from safetensors.torch import save_file

import vitbook
from vitbook import analysis, datasets, runs
from vitbook.cli.measurements.score import score
from vitbook.training import save_checkpoint

READER = "cluttered_digits-vit_micro_r5_s4_32-cluttered-seed0"


FEW = ("rollout", "relevance", "integrated gradients")
OF_A_CNN = ("integrated gradients", "Grad-CAM")


@pytest.fixture(scope="module", autouse=True)
def few_explanations():
    """Some of each kind of model, as all of them take minutes."""
    module = import_module("vitbook.cli.measurements.score")
    every = module.explanations_of

    def some(model):
        names = OF_A_CNN if "guided backpropagation" in every(model) else FEW
        return {name: every(model)[name] for name in names}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "explanations_of", some)
        yield


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """What is written of two images."""
    (row,) = score(
        checkpoint=READER, num_images=2, out=tmp_path_factory.mktemp("scored"), device="cpu"
    )
    return row


def test_two_versions_of_a_checkpoint_have_rows_of_their_own(tmp_path, refused):
    (tmp_path / "explanations-own.v2.json").mkdir()
    line = refused("measure", "score", tmp_path / "own.v2", "--out", tmp_path)
    assert "explanations-own.v2.json" in line and "no plain file" in line


def test_a_line_for_each_explanation_its_twin_and_the_nulls(scored):
    row = scored
    names = [line["name"] for line in row.rows]
    expected = [each for name in FEW for each in (name, f"{name}, untrained twin")]
    assert names == [*expected, "edges", "centre", "random", "the mask"]
    assert [line["name"] for line in row.rows if line["knows_model"]] == list(FEW)
    assert (row.kind, row.subject, row.settings["pictures"]) == ("explanations", READER, 2)
    for line in row.rows:
        for each in ("pointing", "deletion", "insertion"):
            mean, low, high = line[each]
            assert 0 <= low <= mean <= high <= 1


def test_the_numbers_are_the_librarys(scored):
    lines = {line["name"]: line for line in scored.rows}
    model = vitbook.load_checkpoint(READER).model
    data, masks = (
        datasets.load("cluttered_digits", "test"),
        datasets.answer_masks("cluttered_digits", "test", 2),
    )
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
    lines = {line["name"]: line for line in scored.rows}
    assert {name for name, line in lines.items() if line["twin"]} == set(FEW)
    mean, low, high = lines["integrated gradients"]["twin"]
    assert -1 <= low <= mean <= high < 0.999
    assert lines["rollout"]["insertion"] != lines["rollout, untrained twin"]["insertion"]


def test_what_cannot_be_scored(tmp_path, refused):
    digits = "digits-vit_micro_patch2_8-digits-seed0"
    told = refused("measure", "score", digits)
    assert "learned from digits, whose images do not say where their answer lies" in told
    assert "expected a checkpoint of cluttered_digits" in told
    assert "no checkpoint nothing: train one" in refused("measure", "score", "nothing")
    text = tmp_path / "text.safetensors"
    text.write_text("no weights")
    assert str(text) in refused("measure", "score", text)
    foreign = tmp_path / "foreign.safetensors"
    save_file({"weight": torch.zeros(1)}, foreign)
    assert str(foreign) in refused("measure", "score", foreign)


@pytest.fixture(scope="module")
def cnn(tmp_path_factory):
    """A ResNet with fresh weights that says it has learned the same data."""
    file = tmp_path_factory.mktemp("cnn") / "small.safetensors"
    model = vitbook.create_model("resnet8_digits", image_size=32)
    save_checkpoint(file, model, provenance={"dataset": "cluttered_digits"})
    return file


def test_a_cnn_beside_it_is_scored_on_itself(cnn, tmp_path):
    (row,) = score(
        checkpoint=READER, beside=str(cnn), against="relevance", num_images=2, out=tmp_path,
        device="cpu",
    )  # fmt: skip
    assert row.subject == f"{READER}-beside-small" and row.settings["against"] == "relevance"
    lines = {line["name"]: line for line in row.rows}
    theirs = [f"{name}, small" for name in OF_A_CNN]
    assert [*lines][-2 * len(theirs) :: 2] == theirs
    assert [n for n, line in lines.items() if line["knows_model"]] == [*FEW, *theirs]
    assert lines["relevance"]["pointing lead"] == [0, 0, 0]
    assert all(line["deletion lead"] is line["insertion wins"] is None for line in row.rows)
    model = vitbook.load_checkpoint(cnn).model
    data, masks = (
        datasets.load("cluttered_digits", "test"),
        datasets.answer_masks("cluttered_digits", "test", 2),
    )
    images, targets = datasets.normalize(data.images[:2]), data.labels[:2]
    cam = analysis.map_grad_cam(model, images, targets)
    line = lines["Grad-CAM, small"]
    hits = analysis.pointing(cam, masks).mean().item()
    assert line["pointing"][0] == pytest.approx(hits, abs=1e-3)


def test_what_cannot_stand_beside(cnn, tmp_path, refused):
    digits = "digits-vit_micro_patch2_8-digits-seed0"
    out = ("--out", tmp_path)
    assert "learned from digits" in refused("measure", "score", READER, "--beside", digits, *out)
    told = refused("measure", "score", READER, "--beside", READER, *out)
    assert "stands there 2 times" in told
    told = refused("measure", "score", READER, "--against", "relevence", *out)
    assert "relevence" in told and "relevance" in told
    told = refused("measure", "score", cnn, "--against", "rollout", *out)  # no attention
    assert "rollout" in told
    named = tmp_path / "untrained twin.safetensors"
    named.write_bytes(cnn.read_bytes())
    told = refused("measure", "score", cnn, "--beside", named, *out)
    assert "untrained twin is called as an explanation is: rename the file" in told
    for wrong, said in (
        ({"num_classes": 3}, "1 channels of 32 px and 3 classes"),
        ({"image_size": 64}, "1 channels of 64 px and 10 classes"),
    ):
        model = vitbook.create_model("resnet8_digits", **{"image_size": 32} | wrong)
        save_checkpoint(tmp_path / "other", model, provenance={"dataset": "cluttered_digits"})
        told = refused("measure", "score", READER, "--beside", tmp_path / "other", *out)
        assert f"other takes {said}: expected 1 channels of 32 px and 10 classes" in told


def test_explainers_of_ones_own_have_the_books_controls(tmp_path, monkeypatch, told):
    (tmp_path / "inked.py").write_text(
        "def explain(model, images, targets):\n    return images.detach()[:, 0]\n"
    )
    monkeypatch.chdir(tmp_path)
    mine, theirs = "inked:explain", "captum.attr:InputXGradient"
    printed = told(
        "measure", "score", READER, "--explainer", theirs, "--explainer", mine, "--images", 2,
        "--device", "cpu", "--out", tmp_path,
    )  # fmt: skip
    (row,) = runs.measurements("explanations", folder=tmp_path)
    assert row.subject == f"{READER}-with-captum.attr.InputXGradient-with-inked.explain"
    lines = {line["name"]: line for line in row.rows}
    for name in (theirs, mine):
        assert name in printed and lines[name]["knows_model"] and len(lines[name]["deletion"]) == 3
    assert lines[mine]["twin"] == [1, 1, 1]  # it has not looked at the model
    assert lines[theirs]["twin"][0] < 0.999
    assert lines[mine]["deletion lead"] == lines[f"{mine}, untrained twin"]["deletion lead"]


def test_what_is_not_there_can_be_chosen(scored, tmp_path, refused):
    (row,) = score(checkpoint=READER, removed="imputed", num_images=2, out=tmp_path, device="cpu")
    assert row.subject == f"{READER}-removed-imputed"
    assert row.settings["deletion"] == "to imputed"
    (filled, usual) = (next(r for r in each.rows if r["name"] == "edges") for each in (row, scored))
    assert filled["deletion"] != usual["deletion"] and filled["insertion"] != usual["insertion"]
    assert filled["pointing"] == usual["pointing"]
    told = refused("measure", "score", READER, "--removed", "imputted", "--out", tmp_path)
    assert "unknown baseline 'imputted': did you mean imputed?" in told


def test_explainers_that_are_none(tmp_path, refused):
    def told(explainer):
        return refused("measure", "score", READER, "--explainer", explainer, "--out", tmp_path)

    assert "expected module:function" in told("captum")
    assert "No module named 'absent_maps'" in told("absent_maps:explain")
    assert "did you mean Saliency" in told("captum.attr:Salency")
    assert "expected a class or object with attribute" in told("captum.attr:LayerGradCam")
