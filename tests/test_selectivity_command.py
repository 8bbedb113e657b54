"""`vitbook selectivity`: the row that it leaves, and what it refuses."""

import pytest
import torch

from vitbook import datasets, load_checkpoint, results
from vitbook.__main__ import app, main
from vitbook.analysis import capture_attention, others_in_use

MICRO = "digits-vit_micro_patch2_8-digits-seed0"
RESNET = "digits-resnet8_digits-digits-seed0"


def test_the_row_says_what_the_library_measures(tmp_path, capsys):
    words = ["selectivity", MICRO, f"{MICRO[:-1]}1", "--threads", "1", "--device", "cpu"]
    app([*words, "--out", str(tmp_path)], standalone_mode=False)
    (row,) = results.measurements("selectivity", folder=tmp_path)
    assert row.subject == "digits" and row.settings["images"] == 355
    assert [line["run"][-1] for line in row.rows] == ["0", "1"]
    model = load_checkpoint(f"{MICRO[:-1]}1").model.eval()
    images = datasets.normalize(datasets.load("digits", "test").images)
    with torch.no_grad(), capture_attention(model, reduce=others_in_use) as used:
        model(images)
    found = [heads.mean().item() for heads in used.values()]
    assert row.rows[1]["used"] == pytest.approx(found, abs=1e-4) and len(found) == 4
    assert capsys.readouterr().out.splitlines()[0].split() == ["run", "mean", "1", "2", "3", "4"]


@pytest.mark.parametrize(
    ("words", "said"), [(["gone"], "no checkpoint gone"), ([RESNET], "attention")]
)
def test_one_sentence_and_no_row(words, said, tmp_path, capsys, monkeypatch):
    out = str(tmp_path / "out")
    monkeypatch.setattr("sys.argv", ["vitbook", "selectivity", *words, "--out", out])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.glob("out/*.json"))
