"""`vitbook rank`: the row that it leaves, and what it refuses before anything is computed."""

from shutil import copyfile

import pytest

from vitbook import runs
from vitbook.__main__ import app, main
from vitbook.files import data_folder

MICRO = "digits-vit_micro_patch2_8-digits-seed0"
RESNET = "digits-resnet8_digits-digits-seed0"
SMALL = ["--share", "0.2", "--threads", "1", "--device", "cpu"]


def test_learned_features_score_above_fresh_ones(tmp_path, capsys):
    fresh = "vit_micro_patch2_8"
    given = ["rank", "digits", fresh, MICRO, RESNET, f"{fresh}@12", *SMALL, "--out", str(tmp_path)]
    app(given, standalone_mode=False)
    (row,) = runs.measurements("transfer_scores", folder=tmp_path)
    assert row.subject == "digits" and row.settings["training_images"] == 288
    lines = {(line["model"], line["image_size"]): line for line in row.rows}
    assert set(lines) == {(fresh, 8), (fresh, 12), (MICRO, 8), (RESNET, 8)}
    assert [line["ridge"] for line in row.rows] == sorted(
        (line["ridge"] for line in row.rows), reverse=True
    )
    for learned in (MICRO, RESNET):
        assert lines[learned, 8]["ridge"] > 0.95 > lines[fresh, 8]["ridge"]
        assert lines[learned, 8]["neighbours"] > lines[fresh, 8]["neighbours"]
    assert lines[MICRO, 8]["learned_from"] == "digits"
    assert lines[fresh, 8]["learned_from"] == "nothing"
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split() == ["model", "pixels", "ridge", "neighbours", "learned", "from"]
    before = row.rows
    app(given, standalone_mode=False)  # from the kept features
    assert runs.measurements("transfer_scores", folder=tmp_path)[0].rows == before


def test_ridge_reads_as_many_combinations_of_each_body(tmp_path, capsys):
    given = ["rank", "digits", MICRO, RESNET, *SMALL, "--width", "3", "--out", str(tmp_path)]
    app(given, standalone_mode=False)
    (row,) = runs.measurements("transfer_scores", folder=tmp_path)
    assert row.settings["projected_width"] == 3
    for line in row.rows:
        scores = line["ridge_projected"]
        assert len(scores) == 5 and 0.5 < sum(scores) / 5 < line["ridge"]
    assert "ridge of 3" in capsys.readouterr().out


def test_a_file_in_a_folder_with_an_at(tmp_path):
    file = tmp_path / "runs@home" / "ü.safetensors"
    file.parent.mkdir()
    copyfile(data_folder() / "checkpoints" / f"{MICRO}.safetensors", file)
    given = ["rank", "digits", str(file), f"{file}@12", *SMALL, "--out", str(tmp_path)]
    app(given, standalone_mode=False)
    (row,) = runs.measurements("transfer_scores", folder=tmp_path)
    assert {line["image_size"] for line in row.rows} == {8, 12}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["digits", "vit_nano_patch2_8"], "vit_nano_patch2_8"),
        (["digits", MICRO, MICRO], "is there twice"),
        (["digits", MICRO, f"{MICRO}@08"], "of 8 pixels is there twice: name each model once"),
        (["digits", f"{MICRO}@nine"], "expected a name, or a name and pixels such as"),
        (["digits", f"{MICRO}@9"], "9"),
        (["digits", "gone.safetensors"], "gone.safetensors"),
        (["digits", "poster-resnet20-seed0-8376e7f4"], "of 1 channels"),
        (["digit", MICRO], "digit"),
        (["digits", MICRO, "--share", "0"], "share 0.0"),
        (["digits", MICRO, "--width", "0"], "equal to 1"),
        (["digits", MICRO, "--width", "200"], "200 combinations of 128 features"),
        (["digits", MICRO, "--out", "/proc/x"], "/proc"),
        (["digits", MICRO, "--share", "0.007"], "class 0 has one image"),
        (["digits"], "Missing argument"),
    ],
)
def test_bad_words_are_refused(words, said, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["vitbook", "rank", *words])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert said in capsys.readouterr().err
