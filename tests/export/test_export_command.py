"""`vitbook export`: the file, what is said of it, and what is refused."""

import onnx
import pytest

from vitbook.__main__ import app, main
from vitbook.export.page_manifest import read_page_model

MICRO = "digits-vit_micro_patch2_8-digits-seed0"


def test_the_file_and_its_errors(tmp_path, capsys):
    file = tmp_path / "model.onnx"
    words = ["export", MICRO, "--out", str(file), "--attention", "--precision", "int8"]
    app(words, standalone_mode=False)
    shown = capsys.readouterr().out
    rows = {line.split()[0]: line.split() for line in shown.splitlines() if line}
    assert rows["answer"][1] == "1" and rows["attention"][1] == "4" and "tokens" not in rows
    assert 1e-4 < float(rows["answer"][2]) < 0.1
    assert f"wrote {file}, {file.stat().st_size / 1e6:.1f} MB, compared with torch on 9" in shown
    told = {each.key: each.value for each in onnx.load(file).metadata_props}
    assert told["model"] == MICRO and "digits, seed 0" in told["weights"]


def test_a_folder_for_a_page(tmp_path, capsys):
    words = ["export", MICRO, "--page", str(tmp_path / "out"), "--free-size"]
    app(words, standalone_mode=False)
    shown = capsys.readouterr().out
    manifest, _ = read_page_model(tmp_path / "out")
    assert manifest["answers"]["answer"]["classes"] == [str(digit) for digit in range(10)]
    assert {"8x8", "6x6", "4x4", "6x10", "10x6"} < manifest["sizes"].keys()
    assert manifest["precision"] == "float16" and manifest["name"] == MICRO
    rows = {line.split()[0]: line.split() for line in shown.splitlines() if line}
    assert rows["attention"][1] == rows["tokens"][1] == "4" and "left out" not in shown
    assert "compared with torch on 9 images: `vitbook page" in shown


def test_the_file_is_called_after_the_model(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    app(["export", "resnet20", "--threads", "1"], standalone_mode=False)
    assert [each.name for each in tmp_path.iterdir()] == ["resnet20.onnx"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["no_such_model"], "no_such_model"),
        ([MICRO, "--precision", "int3"], "int3"),
        (["resnet20", "--attention"], "no attention ran"),
        ([MICRO, "--images", "no/such/folder"], "no file or folder"),
        ([MICRO, "--page", "p"], "leave --out, --attention and --tokens out"),
    ],
)
def test_refused_in_one_sentence(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["vitbook", "export", *words, "--out", str(tmp_path / "m")])
    with pytest.raises(SystemExit):
        main()
    error = capsys.readouterr().err
    assert error.startswith("vitbook: ") and said in error and "Traceback" not in error
    assert not list(tmp_path.iterdir())
