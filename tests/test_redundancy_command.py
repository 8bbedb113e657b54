"""`vitbook redundancy`: the row that it leaves, and what it refuses before anything is computed."""

import pytest

from vitbook import datasets, load_checkpoint, runs
from vitbook.__main__ import app, main
from vitbook.analysis import layer_redundancy

MICRO = "digits-vit_micro_patch2_8-digits-seed0"
UNLABELED = "self_supervision_digits-vit_micro_patch2_8-seed0-81831f17"
OTHER = "digits-resnet8_digits-digits-seed0"


def test_the_row_says_what_the_library_measures(tmp_path, capsys):
    words = ["redundancy", MICRO, f"{MICRO[:-1]}1", "--threads", "1", "--device", "cpu"]
    app([*words, "--out", str(tmp_path)], standalone_mode=False)
    (row,) = runs.measurements("redundancy", folder=tmp_path)
    assert row.subject == "digits" and [line["run"][-1] for line in row.rows] == ["0", "1"]
    assert row.settings["images"] == 355 and row.settings["split"] == "test"
    images = datasets.normalize(datasets.load("digits", "test").images)
    found = layer_redundancy(load_checkpoint(f"{MICRO[:-1]}1").model, images)
    line = row.rows[1]
    assert line["channels"] == pytest.approx(found.channels, abs=1e-3)
    assert line["share"] == pytest.approx(found.share, abs=1e-4)
    assert line["likeness"] == pytest.approx(found.likeness, abs=1e-4)
    assert capsys.readouterr().out.splitlines()[0].split()[:3] == ["run", "effective", "channels"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([MICRO, f"elsewhere/{MICRO}.safetensors"], "stands there 2 times: name it once"),
        ([UNLABELED], "has learned no classes"),
        (["gone"], "no checkpoint gone"),
        ([MICRO, "--split", "tset"], "tset"),
        ([MICRO, "--dataset", "cifar10"], "cifar10"),
        ([MICRO, "--threads", "0"], "0"),
    ],
)
def test_one_sentence_and_no_row(words, said, tmp_path, capsys, monkeypatch):
    given = ["vitbook", "redundancy", *words, "--out", str(tmp_path / "out")]
    monkeypatch.setattr("sys.argv", given)
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.glob("out/*.json"))
