"""A path in the place of a data set's name: what commands make of it, and where nothing is."""

import re

import numpy as np
import pytest
from PIL import Image

import vitbook
from vitbook import datasets, runs
from vitbook.cli.measurements import linear_probe as probe
from vitbook.models.weights.pretrained import Pretrained
from vitbook.runs import get_recipe
from vitbook.training import RunStoppedError, load_checkpoint, run

MICRO = "digits-vit_micro_patch2_8-digits-seed0"
QUICK = {"epochs": 2, "warmup_epochs": 1, "batch_size": 8}
NAME = r"pets@[0-9a-f]{8}"


@pytest.fixture
def pets(tmp_path, monkeypatch):
    """Bright cats and dark dogs, nobody has split them."""
    monkeypatch.setenv("VITBOOK_DATA", str(tmp_path / "root"))
    generator = np.random.default_rng(0)
    for name, low in (("cat", 128), ("dog", 0)):
        (tmp_path / "mine" / "pets" / name).mkdir(parents=True)
        for number in range(15):
            noise = generator.integers(low, low + 128, (10, 14, 3), dtype=np.uint8)
            Image.fromarray(noise).save(tmp_path / "mine" / "pets" / name / f"{number}.png")
    return tmp_path / "mine" / "pets"


def trained(told, pets, out, *more):
    words = ["train", "vit_micro_patch2_8", pets, "--out", out, "--epochs", 2, "--batch", 8]
    return told(*words, "--set", "warmup_epochs=1", "--device", "cpu", *more)


def test_from_a_folder_to_a_row_that_knows_its_data(pets, tmp_path, told):
    out = tmp_path / "runs"
    said = trained(told, pets, out)
    assert re.search(rf"{NAME}: pictures 24 of train and 6 of test, 2 classes; 20% of each", said)
    (row,) = runs.read(out)
    assert re.fullmatch(NAME, row.dataset) and row.name.startswith(f"{row.dataset}-vit_micro")
    assert row.provenance["rule"].startswith("20% of each class held out, drawn by seed 0")
    assert str(tmp_path) not in (out / f"{row.name}.json").read_text()
    checkpoint = out / f"{row.name}.safetensors"
    assert str(tmp_path).encode() not in checkpoint.read_bytes()
    assert load_checkpoint(checkpoint).class_names == ("cat", "dog")
    assert [each.name for each in pets.parent.iterdir()] == ["pets"]
    assert sorted(each.name for each in pets.iterdir()) == ["cat", "dog"]
    # By the path, by the name in the row, and by what the checkpoint says.
    for asked in ([pets], [row.dataset], []):
        last = told("evaluate", checkpoint, *asked).splitlines()[-1]
        assert last == f"{row.accuracy:.2%} of 6 images of {row.dataset}, test"


def test_what_has_learned_from_a_folder_is_measured_on_it_and_learns_on(
    pets, tmp_path, monkeypatch, told
):
    trained(told, pets, tmp_path / "runs")
    (first,) = (tmp_path / "runs").glob("*.safetensors")
    body = load_checkpoint(first).model
    loaded = Pretrained("small", body, (), {"digest": "d", "learned": "w"}, (0.5,) * 3, (0.5,) * 3)
    monkeypatch.setattr(probe, "load_pretrained", lambda *given, **named: loaded)
    seen = tmp_path / "seen"
    told("measure", "linear-probe", pets, "--model", "small", "--out", seen)
    told("measure", "moves", first, "--dataset", pets, "--most", 1, "--out", seen)
    for row in runs.measurements(folder=seen):
        assert re.search(NAME, row.subject) and "/" not in row.subject
    words = ["--from", first, "--recipe", "fine_tuning", "--set", "image_size=8"]
    trained(told, pets, tmp_path / "more", *words)
    (row,) = runs.read(tmp_path / "more", tuned=True)
    assert row.start.startswith(first.stem) and re.fullmatch(NAME, row.dataset)


def test_a_changed_folder_is_another_run(pets, tmp_path):
    asked = ("vit_micro_patch2_8", pets, get_recipe("digits", **QUICK))
    steps = iter(range(99))
    with pytest.raises(RunStoppedError):
        run(*asked, folder=tmp_path, device="cpu", progress=False, stop=lambda: next(steps) == 3)
    Image.new("RGB", (9, 9)).save(pets / "dog" / "more.png")
    result = run(*asked, folder=tmp_path, device="cpu", progress=False)
    assert result.provenance["pictures"] == 25 and len([*tmp_path.glob("*.unfinished")]) == 1
    assert not (tmp_path / f"{result.name}.unfinished").exists()


def test_a_folder_is_kept_with_another_seed_listed_and_checked(pets, tmp_path, told):
    usual, other = datasets.name_of(pets), told("data", "keep", pets, "--seed", 3).split()[-1]
    assert usual != other
    listed = told("data", "list").splitlines()
    assert sum(line.startswith("pets@") for line in listed) == 2
    assert any(line.startswith(other) and "train 24, test 6; " in line for line in listed)
    for asked in (pets, other):
        checked = told("data", "check", asked).splitlines()[-2:]
        assert "24 images (PNG, 14 x 10) of 2 classes, 12 each" in checked[0]
        assert "6 images (PNG, 14 x 10) of 2 classes, 3 each" in checked[1]
    assert trained(told, other, tmp_path / "runs").count(other) > 1


ABSENT = {
    "train": ["train", "vit_micro_patch2_8", "{}", "--out", "{out}"],
    "evaluate": ["evaluate", MICRO, "{}"],
    "linear-probe": ["measure", "linear-probe", "{}", "--out", "{out}"],
    "moves": ["measure", "moves", MICRO, "--dataset", "{}", "--out", "{out}"],
}


@pytest.mark.parametrize("command", ABSENT)
def test_a_data_set_that_is_none_leaves_nothing(command, tmp_path, monkeypatch, refused):
    monkeypatch.setenv("VITBOOK_DATA", str(tmp_path / "root"))
    (tmp_path / "beside").mkdir()
    out = tmp_path / "runs"
    for asked, message in (
        ("./cifar10", r"vitbook: no folder or table .*cifar10: expected FOLDER"),
        ("cifar11", "vitbook: unknown data set 'cifar11': did you mean cifar10"),
    ):
        words = [word.format(asked, out=out) for word in ABSENT[command]]
        assert re.match(message, refused(*words))
    assert [each.name for each in tmp_path.rglob("*")] == ["beside"]


@pytest.mark.parametrize("model", ["{}/vit", "vit_micro"])
@pytest.mark.parametrize("words", ["train {} digits", "measure linear-probe digits --model {}"])
def test_a_model_that_is_none_leaves_nothing(words, model, tmp_path, monkeypatch, refused):
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    name = model.format(tmp_path)
    said = refused(*words.format(name).split())
    assert f"unknown model '{name}'" in said or f"unknown pretrained model '{name}'" in said
    assert [each.name for each in tmp_path.rglob("*")] == ["work"]


def test_the_plan_of_experiments_names_data_sets_and_no_folders(pets, tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text(
        f'[pets]\nquestion = "?"\n[[pets.runs]]\nmodels = ["vit_micro_patch2_8"]\n'
        f'dataset = "{pets}"\nrecipe = "digits"\n'
    )
    with pytest.raises(vitbook.runs.ExperimentError, match="unknown data set '/"):
        vitbook.runs.read_experiments(plan)
    assert not (tmp_path / "root").exists() and datasets.name_of("digits") == "digits"
