"""A chapter's switch: the same roles at both scales, made where they lack, and never in silence."""

from dataclasses import replace

import pytest
import torch

from vitbook import runs
from vitbook.datasets.cluttered import source_of
from vitbook.errors import UnknownNameError
from vitbook.training import TooLongError, at_scale, roles, start_from

EXPERIMENTS = {each.name: each for each in runs.read_experiments()}
PAIRS = [name for name in EXPERIMENTS if f"{name}_gpu" in EXPERIMENTS]
BUDGET = 1e-9  # a step
SMALL = """
[small_gpu]
question = "Which?"
dataset = "digits"
recipe = "digits"
changes = { warmup_epochs = 1.0 }
images = 25_600
epochs = 20
seeds = [4, 5]

[[small_gpu.runs]]
role = "vit"
models = ["vit_micro_patch2_8"]

[[small_gpu.runs]]
role = "resnet"
models = ["resnet8_digits"]
"""


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A pair of experiments of digits, and what asks for its larger part."""
    path = tmp_path / "list.toml"
    path.write_text(SMALL + SMALL.replace("small_gpu", "small"))
    read = runs.read_experiments
    monkeypatch.setattr("vitbook.runs.plan.read_experiments", lambda: read(path))

    def ask(budget=BUDGET, **options):
        return at_scale("small", "gpu", budget, folder=tmp_path / "made", device="cpu", **options)

    return ask


@pytest.mark.parametrize("name", PAIRS)
def test_both_scales_have_the_same_roles_and_the_page_has_all_its_rows(name):
    page, strong = EXPERIMENTS[name], EXPERIMENTS[f"{name}_gpu"]
    assert page.roles.keys() == strong.roles.keys() and page.roles
    assert {source_of(run.dataset) for run in strong.runs} == {"cifar10"}
    assert not at_scale(name).missing
    steps = [sum(run.steps for run in each.runs) for each in (page, strong)]
    assert steps[0] < steps[1]


def test_a_page_that_lacks_a_row_says_which(small):
    with pytest.raises(ValueError, match="^small: small_gpu-vit_micro.* was not run; see"):
        at_scale("small")


def test_every_pair_is_named_and_nothing_else_is_at_full_strength():
    strong = [name for name in EXPERIMENTS if name.endswith("_gpu")]
    assert sorted(strong) == sorted(f"{name}_gpu" for name in PAIRS) and "rotations" in PAIRS


def test_rows_that_are_there_count_whether_or_not_somebody_looked_into_them():
    found = at_scale("rotations")
    assert [row.seed for row in found.rows("plain")] == list(range(8))
    assert any(row.probes for row in found.rows("plain"))
    assert found.compare("rotated", "control").gap > 0
    assert str(found).startswith("digits, 1,320 steps, seeds 0 to 7, on ")


def test_what_lacks_is_made_once_and_found_again(small, capsys):
    found = small()
    said = capsys.readouterr().out
    assert "2 runs, about a minute on " in said and "[2/2] resnet8_digits, seed 4" in said
    assert found.seeds == (4,) and not found.missing
    assert [row.recipe["epochs"] for row in found.rows("vit")] == [1]
    model = found.model("vit", 4)
    assert model.spec.name == "vit_micro_patch2_8" and not model.training
    assert model(torch.zeros(1, 1, 8, 8)).shape == (1, 10)
    assert found.model("vit", 4, image_size=12).grid_size == (6, 6)
    start = start_from(
        found.weights("vit", 4), "vit_micro_patch2_8", image_size=8, num_classes=2, channels=1
    )
    assert torch.equal(start.prefix, model.prefix)  # another run may go on from what was made here
    again = small()
    assert "2 runs" not in capsys.readouterr().out
    assert again.rows("resnet") == found.rows("resnet") and len(again.dataset()) == 355
    assert str(again).startswith("digits, 1 step, seed 4, on ")


def test_a_chapter_may_have_switched_gradients_off(small):
    with torch.no_grad():
        found = small()
    assert found.rows("vit") and not found.model("vit", 4).training


def test_at_a_tenth_of_the_budget_all_seeds_are_made(small):
    found = small(0.1, minutes=1e6)
    assert found.seeds == (4, 5) and found.rows("vit")[0].recipe["epochs"] == 2
    assert found.compare("vit", "resnet").steps == (40, 40)


def test_weights_that_only_a_row_speaks_of_are_made_when_asked_for(small, tmp_path, capsys):
    found = small()
    (weights,) = (tmp_path / "made").rglob("*resnet8*.safetensors")
    weights.unlink()  # to free a Drive, say: the row stays
    assert found.model("resnet", 4).spec.name == "resnet8_digits" and weights.is_file()
    assert "and not its weights: training" in capsys.readouterr().out


def test_what_was_cut_off_goes_on_with_what_is_left(small, monkeypatch):
    whole, calls = roles.run, []

    def cut(*args, **kwargs):
        calls.append(args[0])
        if len(calls) == 2:
            raise KeyboardInterrupt
        return whole(*args, **kwargs)

    monkeypatch.setattr(roles, "run", cut)
    with pytest.raises(KeyboardInterrupt):
        small()
    assert not small().missing
    assert calls == ["vit_micro_patch2_8", "resnet8_digits", "resnet8_digits"]


def test_rows_of_another_version_are_named_and_not_read(small, tmp_path, capsys):
    small()
    (own,) = (tmp_path / "made").iterdir()
    own.rename(own.with_name("0.0.1-older"))
    capsys.readouterr()
    small()
    said = capsys.readouterr().out
    assert "Not read: runs by other versions" in said and "0.0.1-older" in said
    assert "2 runs, about" in said


def test_what_takes_too_long_is_refused_with_a_budget_that_fits(small, tmp_path):
    with pytest.raises(TooLongError, match="4 runs of small_gpu take about .* were asked") as error:
        small(1, minutes=0.01)
    assert "choose a GPU, BUDGET = " in str(error.value) and "or minutes=" in str(error.value)
    assert not list((tmp_path / "made").rglob("*.json"))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("rotation",), "unknown experiment 'rotation': did you mean rotations"),
        (("rotations", "GPU"), "unknown scale 'GPU': known: gpu, page"),
        (("rotations", "gpu", 0), "budget 0: expected a number above 0, up to 1"),
        (("rotations", "gpu", 2), "budget 2: expected a number above 0, up to 1"),
        (("rotations", "gpu", True), "budget True: expected a number"),
        (("rotations", "gpu", float("nan")), "budget nan: expected a number"),
        (("poster",), "experiment poster has no roles"),
        (("poster", "gpu"), "unknown experiment 'poster_gpu'"),
    ],
)
def test_what_cannot_be_asked_for(asked, words):
    with pytest.raises((UnknownNameError, ValueError), match=words):
        at_scale(*asked)


def test_no_role_no_weights():
    found = at_scale("rotations")
    with pytest.raises(UnknownNameError, match="role of rotations 'turned': known: border"):
        found.rows("turned")
    with pytest.raises(UnknownNameError, match="whose weights the book has '2': known: 0"):
        found.model("control", 2)


def test_what_the_book_shows_stops_and_what_is_trained_here_is_told(capsys):
    found = at_scale("rotations")
    with pytest.raises(AssertionError, match="pigs fly"):
        found.expect("pigs fly", False)
    strong = replace(found, scale="gpu")
    strong.expect("pigs fly", False)
    strong.expect("pigs walk", True)
    lines = capsys.readouterr().out.splitlines()[-2:]
    assert [line.split(" for ")[0] for line in lines] == ["does not hold", "holds"]


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("budget", [1e-9, 0.001, 0.03, 0.5])
def test_a_budget_cuts_steps_and_nothing_else(name, budget):
    for run in EXPERIMENTS[f"{name}_gpu"].runs:
        cut = run.shorter(budget)
        assert cut.steps == pytest.approx(max(1, run.steps * budget), rel=0.2, abs=1)
        assert cut.recipe.warmup_epochs * cut.images / cut.recipe.epochs <= run.images
        numbers = {"epochs", "epoch_images", "warmup_epochs", "ema"}
        changed = {k for k, v in vars(cut.recipe).items() if v != getattr(run.recipe, k)}
        assert changed <= numbers and cut != run
        first, of_all = (some.recipe.ema**some.steps for some in (cut, run))
        assert first == pytest.approx(of_all)  # of the mean of the weights, what is the first's
