"""`vitbook moves`: the row that it leaves, and what it refuses before anything is computed."""

import pytest
import torch

from vitbook import datasets, load_checkpoint, runs
from vitbook.__main__ import app, main
from vitbook.cli.moves import moved

MICRO = "digits-vit_micro_patch2_8-digits-seed0"


def test_what_leaves_is_lost_and_zero_comes_in():
    images = torch.arange(1, 13, dtype=torch.uint8).view(1, 1, 3, 4)
    assert moved(images, 1)[0, 0].tolist() == [[0, 1, 2, 3], [0, 5, 6, 7], [0, 9, 10, 11]]
    assert moved(images, -3)[0, 0].tolist() == [[4, 0, 0, 0], [8, 0, 0, 0], [12, 0, 0, 0]]
    assert torch.equal(moved(images, 0), images)


def test_the_row_has_a_share_for_each_move(tmp_path, capsys):
    words = ["moves", MICRO, f"{MICRO[:-1]}1", "--threads", "1", "--device", "cpu"]
    app([*words, "--out", str(tmp_path)], standalone_mode=False)
    (row,) = runs.measurements("moves", folder=tmp_path)
    assert row.subject == "digits" and [line["run"][-1] for line in row.rows] == ["0", "1"]
    assert row.settings["images"] == 355 and row.settings["split"] == "test"
    digits, read = datasets.load("digits", "test"), row.rows[1]["accuracy"]
    assert row.settings["right"] == [-2, -1, 0, 1, 2] and len(read) == 5
    model = load_checkpoint(f"{MICRO[:-1]}1").model.eval()
    with torch.no_grad():
        answers = model(datasets.normalize(moved(digits.images, -2))).argmax(1)
    assert read[0] == pytest.approx((answers == digits.labels).float().mean().item(), abs=1e-5)
    assert read[2] > 0.95 > 0.8 > read[3]
    assert capsys.readouterr().out.splitlines()[0].split()[:3] == ["run", "-2", "px"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([MICRO, f"elsewhere/{MICRO}.safetensors"], "stands there 2 times: name it once"),
        (["gone"], "no checkpoint gone"),
        ([MICRO, "--most", "8"], "--most 8: expected 1 to 7 for 8 pixels"),
        ([MICRO, "--split", "tset"], "tset"),
    ],
)
def test_one_sentence_and_no_row(words, said, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["vitbook", "moves", *words, "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.glob("out/*.json"))
