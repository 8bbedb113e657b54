"""`vitbook sharpness`: the row that it leaves, and what it refuses before anything is computed."""

import pytest

from vitbook import datasets, load_checkpoint, runs
from vitbook.__main__ import app, main
from vitbook.training import sharpness

MICRO = "digits-vit_micro_patch2_8-digits-seed0"
UNLABELED = "self_supervision_digits-vit_micro_patch2_8-seed0-81831f17"
OTHER = "digits-vit_micro_patch2_8-digits-seed1"


def test_the_row_says_what_the_library_measures(tmp_path, capsys):
    words = ["sharpness", MICRO, OTHER, "--split", "test", "--radius", "0.2", "--threads", "1"]
    app([*words, "--device", "cpu", "--out", str(tmp_path)], standalone_mode=False)
    (row,) = runs.measurements("sharpness", folder=tmp_path)
    assert row.subject == "digits" and [line["run"] for line in row.rows] == [MICRO, OTHER]
    assert row.settings["radius"] == 0.2 and row.settings["split"] == "test"
    model = load_checkpoint(OTHER).model
    found = sharpness(model, datasets.load("digits", "test"), 0.2)
    line = row.rows[1]
    assert line["loss"] == pytest.approx(found.loss, abs=1e-6)
    assert line["uphill"] == pytest.approx(found.uphill, abs=1e-6)
    squares = sum(weight.double().square().sum().item() for weight in model.parameters())
    assert line["length"] == pytest.approx(squares**0.5, rel=1e-4)
    assert capsys.readouterr().out.splitlines()[0].split()[:3] == ["run", "loss", "uphill"]


def test_images_are_loaded_once(tmp_path, monkeypatch):
    asked, load = [], datasets.load
    monkeypatch.setattr(datasets, "load", lambda *a, **k: asked.append(a) or load(*a, **k))
    words = ["sharpness", MICRO, OTHER, "--split", "test", "--threads", "1", "--device", "cpu"]
    app([*words, "--out", str(tmp_path)], standalone_mode=False)
    assert asked == [("digits", "test")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([MICRO, MICRO], "stands there 2 times: name it once"),
        ([MICRO, f"elsewhere/{MICRO}.safetensors"], "stands there 2 times: name it once"),
        ([MICRO, "--radius", "0"], "radius 0.0: expected a number above 0"),
        ([MICRO, "--radius", "-1"], "radius -1.0: expected a number above 0"),
        ([MICRO, "--radius", "nan"], "radius nan: expected a number above 0"),
        ([MICRO, "--radius", "1e30"], "seed0: the loss goes from"),
        ([UNLABELED], "has learned no classes"),
        (["gone"], "no checkpoint gone"),
        ([MICRO, "--split", "tset"], "tset"),
        ([MICRO, "--dataset", "cifar10"], "cifar10"),
        ([MICRO, "poster-resnet20-seed0-8376e7f4"], "choose a data set of the same classes"),
        ([MICRO, "--threads", "0"], "0"),
    ],
)
def test_one_sentence_and_no_row(words, said, tmp_path, capsys, monkeypatch):
    given = ["vitbook", "sharpness", *words, "--out", str(tmp_path / "out")]
    monkeypatch.setattr("sys.argv", given)
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.glob("out/*.json"))
