"""`vitbook mirrors`: the row that it leaves, and what it refuses."""

import pytest
import torch

from vitbook import load_checkpoint, runs
from vitbook.__main__ import app, main
from vitbook.analysis import mirror_similarity, position_tables

FLIPPED = "positions_flip-vit_mini_w48_patch4_32-seed0-8a6a1a42"
OTHER = "cifar10-vit_mini_patch4_32-quick-seed0"


def test_the_row_says_what_the_library_measures(tmp_path, capsys):
    app(["mirrors", FLIPPED, OTHER, "--out", str(tmp_path)], standalone_mode=False)
    (row,) = runs.measurements("mirrors", folder=tmp_path)
    assert row.subject == "cifar10" and [line["run"] for line in row.rows] == [FLIPPED, OTHER]
    table = position_tables(load_checkpoint(OTHER).model)["position"]
    for key, upside_down in (("across", False), ("down", True)):
        found = mirror_similarity(*table, upside_down=upside_down)
        assert row.rows[1][key] == pytest.approx(found.mirrored - found.others, abs=1e-4)
    assert capsys.readouterr().out.splitlines()[0].split()[:3] == ["run", "left", "and"]


def test_places_without_a_direction_are_refused(tmp_path, monkeypatch):
    given = position_tables(load_checkpoint(FLIPPED).model)["position"]
    table = tuple(torch.zeros_like(each) if torch.is_tensor(each) else each for each in given)
    monkeypatch.setattr("vitbook.cli.mirrors.position_tables", lambda _: {"position": table})
    with pytest.raises(ValueError, match="places without a direction"):
        app(["mirrors", FLIPPED, "--out", str(tmp_path)], standalone_mode=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([FLIPPED, f"elsewhere/{FLIPPED}.safetensors"], "stands there 2 times: name it once"),
        (["digits-vit_micro_patch2_8-digits-seed0"], "a side of 4 places"),
        (["digits-vit_nopos_micro_patch2_8-digits-seed0"], "adds no table of positions"),
        (["gone"], "no checkpoint gone"),
    ],
)
def test_one_sentence_and_no_row(words, said, tmp_path, capsys, monkeypatch):
    given = ["vitbook", "mirrors", *words, "--out", str(tmp_path / "out")]
    monkeypatch.setattr("sys.argv", given)
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.glob("out/*.json"))
