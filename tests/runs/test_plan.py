from dataclasses import replace
from itertools import pairwise

import pytest

from vitbook import runs
from vitbook.datasets.cluttered import CLUTTERED
from vitbook.datasets.embedded.placed_digits import PLACED_DIGITS
from vitbook.models import default_image_size
from vitbook.runs import ExperimentError, PlannedRun, get_recipe, read_experiments
from vitbook.training import check_run, run
from vitbook.training.objectives.teachers import check_teacher_name

GOOD = """
[first]
question = "Is it so?"
dataset = "digits"
recipe = "digits"
changes = { drop_path = 0.1 }
images = 1_280
epochs = 4

[[first.runs]]
models = ["vit_micro_patch2_8", "resnet8_digits"]
seeds = [0, 1]
shares = [1.0, 0.5]

[[first.runs]]
models = ["rot_vit_micro_patch2_8"]
changes = { weight_decay = 0.0 }
probes = [0, 4]
ships = true

[later]
question = "And this?"
needs = "an optimiser"
"""

UNTAUGHT, TAUGHT = (
    f"changes = {{ {what} }}" for what in ("weight_decay = 0.0", 'distillation = "hard"')
)


def read(tmp_path, text):
    path = tmp_path / "list.toml"
    path.write_text(text)
    return read_experiments(path, check_run)


def test_what_a_list_asks_for(tmp_path):
    first, later = read(tmp_path, GOOD)
    assert (first.name, first.question, first.needs) == ("first", "Is it so?", "")
    assert (later.needs, later.runs) == ("an optimiser", ())
    order = [(run.model, run.seed, run.share) for run in first.runs]
    assert order[:5] == [
        ("vit_micro_patch2_8", 0, 1.0),
        ("resnet8_digits", 0, 1.0),
        ("vit_micro_patch2_8", 0, 0.5),
        ("resnet8_digits", 0, 0.5),
        ("vit_micro_patch2_8", 1, 1.0),
    ]
    plain, last = first.runs[0], first.runs[-1]
    assert plain.recipe == get_recipe("digits", drop_path=0.1, epochs=4, epoch_images=320)
    assert plain.images == 4 * 5 * 64 and not plain.ships
    assert (last.recipe.weight_decay, last.recipe.drop_path) == (0.0, 0.1)
    assert last.probe_epochs == (0, 4) and last.ships
    assert plain.name == f"first-vit_micro_patch2_8-seed0-{plain.digest}"
    assert len({run.digest for run in first.runs}) == len(first.runs)


def test_a_list_is_read_once_and_anew_when_it_changed(tmp_path):
    first, _ = read(tmp_path, GOOD)
    assert read(tmp_path, GOOD)[0] is first
    assert read(tmp_path, GOOD.replace("Is it so?", "So is it?"))[0].question == "So is it?"


def test_a_role_has_the_seeds_of_one_model_wherever_they_stand(tmp_path):
    entries = "".join(
        f'[[first.runs]]\nrole = "{role}"\nmodels = ["{model}"]\nseeds = {seeds}\nshares = [0.5]\n'
        for seeds in ([2], [3, 4])
        for role, model in (("plain", "vit_micro_patch2_8"), ("ResNet", "resnet8_digits"))
    )
    text = GOOD.replace("[later]", entries + "[later]")
    first = read(tmp_path, text)[0]
    roles = {role: [(run.model, run.seed) for run in some] for role, some in first.roles.items()}
    assert roles == {
        role: [(model, seed) for seed in (2, 3, 4)]
        for role, model in (("plain", "vit_micro_patch2_8"), ("ResNet", "resnet8_digits"))
    }
    assert [run.seed for run in first.runs[-6:]] == [2, 2, 3, 4, 3, 4]
    for old, new in (
        ('role = "ResNet"', 'role = "plain"'),
        ("shares = [0.5]", "shares = [0.5, 0.25]"),
        ("seeds = [3, 4]", "seeds = [3, 4]\nchanges = { dropout = 0.1 }"),
    ):
        with pytest.raises(ExperimentError, match="role 'plain': expected one model, and its seed"):
            read(tmp_path, text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[first]", "[first", "is no TOML"),
        ('"rot_vit_micro_patch2_8"', '"rot_vit_micro"', "unknown model 'rot_vit_micro': did you"),
        ('recipe = "digits"', 'recipe = "digit"', "unknown recipe 'digit': did you mean digits"),
        ("drop_path = 0.1", "drop_pth = 0.1", "recipe field 'drop_pth': did you mean drop_path"),
        ("drop_path = 0.1", 'drop_path = "much"', "drop_path 'much': expected a number"),
        ("drop_path = 0.1", "batch_size = 2.5", "batch_size 2.5: expected a whole number"),
        ('dataset = "digits"', 'dataset = "digit"', "unknown data set 'digit': did you mean dig"),
        ('dataset = "digits"', 'dataset = "photos"', "photos has only 'all', no held-out split"),
        ('dataset = "digits"', "", "without dataset"),
        ("shares = [1.0, 0.5]", "shares = [0]", "share 0: expected more than 0, up to 1"),
        ("shares = [1.0, 0.5]", "shares = 0.5", "shares 0.5: expected a list"),
        ("seeds = [0, 1]", "seeds = [0, 0]", "the same run of vit_micro_patch2_8 stands there twi"),
        ("seeds = [0, 1]", "seeds = [-1]", "seed -1: expected a whole number from 0"),
        ("seeds = [0, 1]", "sedes = [0]", "unknown field 'sedes': did you mean seeds"),
        ("probes = [0, 4]", "probes = [5]", "probe after epoch 5: the run has 4"),
        ("images = 1_280", "images = 1_281", "images 1,281 do not divide into 4 epochs"),
        ("images = 1_280", "", "images None, epochs 4: expected both"),
        ("images = 1_280", "images = 40", "has fewer images than a batch of 64: tak"),
        ('question = "Is it so?"', "", "no question: say what its runs decide"),
        ('needs = "an optimiser"', "", "later.*expected runs, ..later.runs.., or a wo"),
        ("[first]", '["a/b"]', "experiment 'a/b': expected at most 40 letters"),
        ("[first]", f"[{41 * 'x'}]", "expected at most 40 letters"),
        ("shares = [1.0, 0.5]", "shares = [2.0]", "share 2.0: expected more than 0, up to 1"),
        ("ships = true", 'ships = "no"', "ships 'no': expected true or false"),
        ("drop_path = 0.1", "epochs = 9", "epochs in changes, and images and epochs"),
        ("drop_path = 0.1", "drop_path = inf", "drop_path is too large: expected less than 2"),
        ("drop_path = 0.1", 'name = "x"', "unknown recipe field 'name'"),
        ('models = ["rot_vit_micro_patch2_8"]', 'models = "rot"', "models 'rot': expected a list"),
        ("[later]", "[later]\nruns = 5", "runs 5: expected a list"),
        ('models = ["rot_vit_micro_patch2_8"]', "", "runs without models"),
        ("ships = true", 'start = "own.safetensors"', "start 'own.safetensors': expected a name"),
        (UNTAUGHT, f'{TAUGHT}\nteacher = "runs/own"', "teacher 'runs/own': expected a name of "),
        ("ships = true", 'teacher = "own"', "run has a teacher and recipe digits no distillation"),
        (UNTAUGHT, f'{TAUGHT}\nteacher = "fresh:vit"', "unknown model 'vit': "),
        ("drop_path = 0.1", 'distillation = "hard"', "distillation 'hard' and the run no teach"),
    ],
)
def test_a_list_that_cannot_be_run(tmp_path, old, new, words):
    assert GOOD.count(old) >= 1
    with pytest.raises(ExperimentError, match=f"list.toml.*{words}|experiment .*{words}") as error:
        read(tmp_path, GOOD.replace(old, new, 1))
    assert "\n" not in str(error.value)


def test_a_run_that_two_experiments_ask_for_is_one(tmp_path):
    text = GOOD + GOOD.split("[later]")[0].replace("first", "second").replace(
        "seeds = [0, 1]", "seeds = [0, 1]\nships = true"
    )
    first, _, second = read(tmp_path, text)
    assert first.runs == second.runs
    assert {run.name for run in second.runs} == {run.name for run in first.runs}
    assert all(run.ships for run in first.runs)


def test_what_decides_a_run_decides_its_digest():
    base = PlannedRun("vit_micro_patch2_8", "digits", get_recipe("digits"))
    changes = [
        dict(model="resnet8_digits"),
        dict(dataset="cluttered_digits"),
        dict(recipe=get_recipe("digits", learning_rate=1e-3)),
        dict(recipe=get_recipe("digits", epoch_images=640)),
        dict(seed=1),
        dict(share=0.5),
        dict(share=0.5, share_seed=1),
        dict(probe_epochs=(0,)),
        dict(recipe=get_recipe("digits", distillation="hard"), teacher="fresh:resnet8_digits"),
    ]
    digests = {base.digest, *(replace(base, **change).digest for change in changes)}
    assert len(digests) == len(changes) + 1
    same = [
        dict(recipe=replace(base.recipe, name="another")),
        dict(experiment="x"),
        dict(ships=True),
        dict(share=1),
        dict(share_seed=7),
        dict(recipe=get_recipe("digits", rotation=10)),
    ]
    assert {replace(base, **change).digest for change in same} == {base.digest}
    assert {replace(base, **change) for change in same} == {base}
    looked = [replace(base, probe_epochs=epochs) for epochs in ((0, 2), (2, 0), (0, 0, 2))]
    assert looked[0] == looked[1] == looked[2] != base


def test_digests_stay_what_they_are():
    """Rows in the ledger are called by them: a change of this number loses their names."""
    assert PlannedRun("vit_micro_patch2_8", "digits", get_recipe("digits")).digest == "0b6bbc5c"


def test_a_row_answers_the_run_that_made_it(tmp_path):
    recipe = get_recipe("digits", epochs=2, epoch_images=128)
    planned = PlannedRun(
        "vit_micro_patch2_8", "digits", recipe, 3, 0.5, 1, (2,), experiment="trial"
    )
    run(
        planned.model, planned.dataset, recipe, seed=3, share=0.5, share_seed=1, folder=tmp_path,
        probe=lambda model, held_out: {"seen": len(held_out)}, probe_epochs=(2,),
        experiment="trial", progress=False,
    )  # fmt: skip
    (row,) = runs.read_all(tmp_path)
    assert row.name == planned.name and PlannedRun.of(row) == planned
    assert (row.experiment, row.definition) == ("trial", planned.digest)
    assert row.provenance["name"] == "digits, 50 % of each class"
    assert row.data_passes == pytest.approx(planned.images / row.provenance["pictures"])
    # Looked into, it answers for the same without probes; a row of that one would go first.
    assert runs.answers([row]) == {planned: row, planned.unprobed: row}
    other = replace(row, probes=[])
    both = {planned: row, planned.unprobed: other}
    assert runs.answers([row, other]) == runs.answers([other, row]) == both
    role = replace(planned, seed=4, experiment="other")
    asked = runs.Experiment("other", "?", (), roles={"a": (planned.unprobed, role), "b": (role,)})
    assert asked.rows([row]) == {"a": [row], "b": []}


def test_a_row_of_a_recipe_that_has_changed_answers_nothing():
    row = runs.read()[0]
    assert PlannedRun.of(replace(row, recipe=row.recipe | {"vanished": 1.0})) is None


def test_the_books_own_list_and_the_commands_that_make_it():
    size = {"cifar10": 32, "cifar100": 32, "tiny_imagenet": 64, "tf_flowers": 128, "digits": 8}
    size |= dict.fromkeys(CLUTTERED, 32) | dict.fromkeys(PLACED_DIGITS, 12)
    experiments = read_experiments(check=check_run)
    assert {"poster", "data_size", "near_heads", "scaling"} <= {e.name for e in experiments}
    for experiment in experiments:
        for planned in experiment.runs:
            assert planned.images > 0
            words = list(planned.command)
            changes = [word for before, word in pairwise(words) if before == "--set"]
            assert words[:3] == ["train", planned.model, planned.dataset]
            assert len(changes) == len({change.split("=")[0] for change in changes})
            own = planned.recipe.image_size or default_image_size(planned.model)
            smaller = experiment.name == "teacher"  # many runs, so that each must be cheap
            assert own == size[planned.dataset] or planned.recipe.name == "fine_tuning" or smaller
            if planned.teacher:
                check_teacher_name(planned.teacher)


def test_no_plan_is_judged_by_a_mean_of_weights_that_still_holds_the_first():
    """Three were, before it was seen: a fifth of the mean was the model after one step."""
    holding = {
        each.name
        for each in read_experiments()
        if any(run.recipe.ema and run.recipe.ema ** (run.steps - 1) > 0.05 for run in each.runs)
    }
    assert holding == {"modern", "hidden_tokens"}
