"""What the page of experiments says of each."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from vitbook import runs
from vitbook.runs import read_experiments
from vitbook.studies.experiments import standing

PLAN = """
[first]
question = "Is it so?"
dataset = "digits"
recipe = "digits"
images = 1_280
epochs = 4

[[first.runs]]
models = ["vit_micro_patch2_8", "resnet8_digits"]
seeds = [0, 1]
shares = [1.0, 0.5]

[[first.runs]]
models = ["rot_vit_micro_patch2_8"]
changes = { weight_decay = 0.0 }

[[first.runs]]
models = ["vit_micro_patch2_8"]
teacher = "digits-resnet8_digits-digits-seed0"
changes = { distillation = "hard" }

[later]
question = "And this?"
needs = "an optimiser"
"""


@pytest.fixture
def planned(tmp_path):
    (tmp_path / "list.toml").write_text(PLAN)
    return read_experiments(tmp_path / "list.toml")


def row_of(planned, accuracy):
    of_any = runs.read()[0]
    return replace(
        of_any, model=planned.model, dataset=planned.dataset, recipe=asdict(planned.recipe),
        seed=planned.seed, share=planned.share, teacher=planned.teacher, accuracy=accuracy,
        data_passes=3.0, probes=[],
    )  # fmt: skip


def test_what_an_experiment_came_to(planned):
    first, later = planned
    plain = [run for run in first.runs if run.model == "vit_micro_patch2_8" and not run.teacher]
    rows = [row_of(run, 0.5 + 0.1 * run.seed) for run in plain if run.share == 1]
    told = 'teacher "digits-resnet8_digits-digits-seed0", distillation "hard"'
    assert standing(first, [*rows, row_of(first.runs[-1], 0.5)]) == [
        {"model": "vit_micro_patch2_8", "changed": "", "50 %": "not run",
         "100 %": "55.00% (50.00% to 60.00%)"},
        {"model": "resnet8_digits", "changed": "", "50 %": "not run", "100 %": "not run"},
        {"model": "rot_vit_micro_patch2_8", "changed": "weight_decay 0.0", "50 %": "–",
         "100 %": "not run"},
        {"model": "vit_micro_patch2_8", "changed": told, "50 %": "–", "100 %": "50.00%"},
    ]  # fmt: skip
    assert standing(later, rows) == []
    whole = replace(first, runs=tuple(run for run in plain if run.share == 1))
    assert standing(whole, rows[:1]) == [
        {"model": "vit_micro_patch2_8", "seeds": "1 of 2", "accuracy": "50.00%",
         "data passes": "3"},
    ]  # fmt: skip
    two = replace(first, runs=(plain[0], replace(plain[0], dataset="cluttered_digits")))
    lines = standing(two, rows)
    assert [line["changed"] for line in lines] == ["", 'dataset "cluttered_digits"']
    assert [line["accuracy"] for line in lines] == ["50.00%", "not run"]


def test_one_way_to_count_epochs_is_no_change(planned):
    one, half = (next(run for run in planned[0].runs if run.share == share) for share in (1, 0.5))
    longer, shorter = (
        replace(half, recipe=replace(half.recipe, epoch_images=images)) for images in (64, 32)
    )
    counted = replace(planned[0], runs=(one, longer))
    assert not [line for line in standing(counted, []) if "changed" in line]
    counted = replace(counted, runs=(*counted.runs, shorter))  # two kinds of one share
    told = [line["changed"] for line in standing(counted, [])]
    assert told == ["", "epoch_images 64", "epoch_images 32"]


def test_the_page_has_a_place_for_every_experiment():
    page = Path(runs.__file__).parents[2] / "book" / "experiments.md"
    if not page.is_file():
        pytest.skip("no checkout: an installed package has no pages")
    text = page.read_text()
    for experiment in read_experiments():
        assert f"({experiment.name.replace('_', '-')})=" in text
        assert not experiment.runs or f'show("{experiment.name}")' in text
