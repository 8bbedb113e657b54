import json
import subprocess
import sys

import pytest

from vitbook import create_model, runs
from vitbook.runs import read
from vitbook.training import save_checkpoint


@pytest.fixture
def vitbook(plain_vitbook):
    def run(*words):
        words = ["vitbook", *map(str, words)]
        return plain_vitbook(
            f"import sys\nfrom vitbook.__main__ import main\nsys.argv = {words}\ntry:\n    main()\n"
            "except SystemExit as done:\n    assert not done.code"
        )

    return run


def test_the_program_without_a_command_says_what_there_is():
    done = subprocess.run([sys.executable, "-m", "vitbook"], capture_output=True, text=True)
    assert "Vision Transformers, built, trained and looked into." in done.stdout + done.stderr


def test_models(told):
    lines = told("models").splitlines()
    assert any("vit_base_patch16_224" in line and "86,567,656 param" in line for line in lines)


def test_train_then_evaluate(vitbook, tmp_path):
    out = vitbook("train", "vit_micro_patch2_8", "--epochs", 2, "--out", tmp_path, "--half")
    (row,) = read(tmp_path)
    assert f"{row.accuracy:.2%}" in out
    assert row.data_passes == pytest.approx(2, abs=0.1) and row.recipe["learning_rate"] > 0
    checkpoint = tmp_path / f"{row.name}.safetensors"
    accuracy = float(vitbook("evaluate", checkpoint).split("%")[0]) / 100
    assert accuracy == pytest.approx(row.accuracy, abs=0.01)

    # `vitbook measure` may write beside the run.
    measured = runs.measurements()[0]
    runs.record(measured, tmp_path)
    assert " vit_micro_patch2_8 " in vitbook("results", "--folder", tmp_path)


def test_a_finished_run_is_not_replaced(tmp_path, refused):
    name = "digits-vit_micro_patch2_8-digits-seed0.json"
    (there,) = [row for row in read() if f"{row.name}.json" == name]
    row = (runs.data_folder() / "results" / name).read_bytes()
    (tmp_path / name).write_bytes(row)
    words = ("train", "vit_micro_patch2_8", "--out", tmp_path)
    said = refused(*words, "--epochs", 2)
    assert f"{name} is of a finished run, this one has" in said
    assert f"recipe.epochs 2, where that has {there.recipe['epochs']}" in said
    said = refused(*words, "--probe-at", "0")
    assert "probe_epochs (0,), where that has" in said
    probes = ",".join(str(probe["epoch"]) for probe in there.probes)
    said = refused(*words, "--probe-at", probes)
    assert "is of a finished run, with the same settings: choose another folder" in said
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_bytes() == row
    stranger = json.loads(row)
    stranger["recipe"]["vanished"] = 1
    (tmp_path / name).write_text(json.dumps(stranger))
    said = refused(*words)
    assert "is of a finished run, whose settings this vitbook cannot read: choose another" in said


@pytest.mark.parametrize(
    "words",
    [
        ("train", "vit_micro_patch2_8"),
        ("measure", "score", "no-such-checkpoint"),
        ("probe", "no-such-model"),
    ],
)
def test_a_folder_that_cannot_be_written_is_found_first(words, tmp_path, monkeypatch, refused):
    file = tmp_path / "file"
    file.write_text("in the way")
    said = refused(*words, "--out", file / "below")
    assert f"could not write {file / 'below'}: {file}: Not a directory; choose another" in said
    (link := tmp_path / "link").symlink_to(tmp_path / "nowhere")
    said = refused(*words, "--out", link)
    assert f"could not write {link}: {link}: Not a directory" in said
    link.unlink()
    monkeypatch.setattr("os.access", lambda *_: False)
    said = refused(*words, "--out", tmp_path / "new")
    assert f"could not write {tmp_path / 'new'}: {tmp_path}: Permission denied; choose" in said
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_checkpoint_of_other_classes(tmp_path, refused):
    path = save_checkpoint(
        tmp_path / "x", create_model("vit_micro_patch2_8"), class_names=("cat", "dog", *"abcdefgh")
    )
    said = refused("evaluate", path, "digits")
    assert "x tells apart 10 classes (cat, dog, a and 7 more); digits has 10 " in said
    assert "class 0 is 'cat' in the one and '0' in the other; choose" in said


def test_results(vitbook, tmp_path):
    lines = vitbook("results").splitlines()
    assert lines[0].split()[:3] == ["data", "model", "parameters"]
    digits = next(line for line in lines if " vit_micro_patch2_8 " in line)
    assert "136,138" in digits and "0, 1, 2" in digits
    one = vitbook("results", "digits-vit_micro_patch2_8-digits-seed0")
    assert "commit: " in one and len(one.splitlines()) > 60
    assert vitbook("results", "--folder", tmp_path).startswith("no runs yet")


TRAIN = "train vit_micro_patch2_8"
BENCH = "measure bench resnet8_digits"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "train vit_micro_patch2",
            "unknown model 'vit_micro_patch2': did you mean vit_micro_patch2",
        ),
        (f"{TRAIN} digit", "unknown data set 'digit'"),
        (f"{TRAIN} --recipe x", "unknown recipe 'x': known: c"),
        (f"{TRAIN} --probe-at x", "--probe-at x: expected epoch"),
        (f"{TRAIN} --probe-at 99", "probe after epoch 99: the"),
        ("train resnet8_digits --probe-at 1", "--probe-at: no attention ran"),
        (f"{TRAIN} --set epochs", "--set epochs: expected a fi"),
        (f"{TRAIN} --set epoch=2", "unknown recipe field 'epo"),
        (f"{TRAIN} --set epochs=2.5", "epochs 2.5: expected a whole number"),
        (f"{TRAIN} --seed -1", "seed -1: expected a whole nu"),
        (f"{TRAIN} --experiment ../x", "experiment '../x': ex"),
        (f"{TRAIN} --share 2", "share 2.0: expected more than"),
        (f"{TRAIN} --share 0.001", "a share of 0.001 leaves no"),
        (f"{TRAIN} --device foo", "device foo: expected cpu, "),
        (f"{TRAIN} --threads 0", "threads 0: expected 1 to"),
        (f"{TRAIN} --save-every nan", "--save-every nan: expe"),
        (f"{BENCH} --device foo", "device foo: expected cpu, "),
        (f"{BENCH} resnet8_digits", "resnet8_digits stands there 2 times"),
        (
            f"{BENCH} --batch 2000000000",
            "a batch of resnet8_digits with 2,000,000,000 images do",
        ),
        ("results digit", "unknown run 'digit': known: "),
        ("results --folder /nope", "/nope: no such folder: give one with rows of"),
        ("data pack cifar10 --out x --max-mb inf", "--max-mb inf: ex"),
        ("evaluate none.safetensors", "no checkpoint none.safetensors"),
    ],
)
def test_bad_input_is_one_sentence(words, message, refused):
    said = refused(*words.split())
    assert said.startswith(f"vitbook: {message}") and len(said.splitlines()) == 1
