import subprocess
import sys

import pytest

from vitbook.__main__ import main
from vitbook.results import read


def vitbook(*words):
    done = subprocess.run(
        [sys.executable, "-m", "vitbook", *map(str, words)], capture_output=True, text=True
    )
    assert not done.returncode, done.stderr
    return done.stdout


def test_models():
    out = vitbook("models")
    assert "vit_base_patch16_224" in out and "86,567,656 parameters" in out


def test_models_audited():
    out = vitbook("models", "--audit")
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["model", "quantity", "printed", "counted", "differs", "verdict"]
    base = ["vit_base_patch16_224", "MACs", "17.6", "G", "17.56", "G", "-0.2%", "agrees"]
    assert base in lines
    assert "- t2t_vit_7, 4.2 M (Yuan et al. 2021 (T2T-ViT), second version" in out
    assert "matrix products, convolutions and" in out


def test_train_then_evaluate(tmp_path):
    out = vitbook("train", "vit_micro_patch2_8", "--epochs", 2, "--out", tmp_path, "--half")
    (row,) = read(tmp_path)
    assert f"{row.accuracy:.2%}" in out
    assert row.data_passes == pytest.approx(2, abs=0.1) and row.recipe["learning_rate"] > 0
    checkpoint = tmp_path / f"{row.name}.safetensors"
    accuracy = float(vitbook("evaluate", checkpoint).split("%")[0]) / 100
    assert accuracy == pytest.approx(row.accuracy, abs=0.01)


def test_results():
    lines = vitbook("results").splitlines()
    assert lines[0].split()[:3] == ["data", "model", "parameters"]
    digits = next(line for line in lines if " vit_micro_patch2_8 " in line)
    assert "136,138" in digits and "0, 1, 2" in digits
    one = vitbook("results", "digits-vit_micro_patch2_8-digits-seed0")
    assert "commit: " in one and len(one.splitlines()) > 60


def test_results_of_an_empty_folder(tmp_path):
    assert vitbook("results", "--folder", tmp_path).startswith("no runs yet")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["train", "vit_micro_patch2"],
            "vitbook: unknown model 'vit_micro_patch2': did you mean vit_micro_patch2_8",
        ),
        (["train", "vit_micro_patch2_8", "digit"], "vitbook: unknown data set 'digit'"),
        (["train", "vit_micro_patch2_8", "--recipe", "x"], "vitbook: unknown recipe 'x': known: d"),
        (
            ["train", "vit_micro_patch2_8", "--probe-at", "x"],
            "vitbook: --probe-at x: expected epoch",
        ),
        (["results", "digit"], "vitbook: unknown run 'digit': known: "),
        (["evaluate", "none.safetensors"], "vitbook: no checkpoint none.safetensors"),
    ],
)
def test_bad_input_is_one_sentence(words, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["vitbook", *words])
    with pytest.raises(SystemExit, match="2"):
        main()
    error = capsys.readouterr().err
    assert error.startswith(message)
    assert len(error.strip().splitlines()) == 1
