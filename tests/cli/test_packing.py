"""A list packed here, worked off in a folder without git and by nothing but the pack, collected."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors import safe_open
from safetensors.torch import save_file

from vitbook import runs
from vitbook.cli import packing
from vitbook.cli.collecting import collect
from vitbook.cli.workplace import WorkError, Workplace
from vitbook.models import create_model
from vitbook.runs import read_experiments
from vitbook.training import save_checkpoint

ROOT = Path(__file__).resolve().parents[2]
LIST = """
# First, what is worth more.
[toy]
question = "Does it learn?"
dataset = "digits"
recipe = "digits"
images = 128
epochs = 1
ships = true

[[toy.runs]]
models = ["vit_micro_patch2_8"]
seeds = [0, 1]

[tuned]
question = "And from weights of others?"
dataset = "digits"
recipe = "digits"
images = 128
epochs = 1

[[tuned.runs]]
models = ["vit_micro_patch2_8"]
start = "digits-vit_micro_patch2_8-digits-seed0"
"""


@pytest.fixture
def place(tmp_path):
    return Workplace(tmp_path / "work", tmp_path / "ledger")


@pytest.fixture
def list_file(tmp_path):
    (tmp_path / "list.toml").write_text(LIST)
    return tmp_path / "list.toml"


def vitbook(*words, cwd, code=0, **environment):
    """A command as its user gives it there, by the code of that folder alone."""
    kept = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"} | environment
    words = [sys.executable, "-m", "vitbook", "experiments", *map(str, words)]
    done = subprocess.run(words, cwd=cwd, env=kept, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def checkout(tmp_path_factory, git):
    """This one as it stands, committed."""
    folder = tmp_path_factory.mktemp("checkout") / "vitbook"
    subprocess.run(["git", "clone", "-q", ROOT, folder], check=True)
    names = git(ROOT, "ls-files", "-z", "-mo", "--exclude-standard").split("\0")
    for name in filter(None, names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_file():
            (folder / name).write_bytes((ROOT / name).read_bytes())
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", "as it stands")
    return folder


@pytest.mark.slow
def test_a_list_goes_there_and_back(checkout, list_file, tmp_path, git):
    there, ledger = tmp_path / "there", tmp_path / "ledger"
    options = ["--file", list_file, "--ledger", ledger, "--work", tmp_path / "work"]
    said = vitbook("pack", there, "tuned", "toy", *options, cwd=checkout)
    assert re.search(r"3 runs, 0\.0 million images, \d\.\d MiB in .*there", said)
    asked = [run for name in (1, 0) for run in read_experiments(list_file)[name].runs]

    # In an order of worth, until the minutes are up; the rest the next time.
    begun = vitbook("run", "--threads", 1, cwd=there)
    assert re.findall(r"(\S+): begins", begun) == [run.name for run in asked]
    rows = runs.read_all(there / "data" / "results")
    commit = git(checkout, "rev-parse", "HEAD")
    assert {row.commit for row in rows} == {commit} and len(rows) == 3
    assert "3 rows came in" in vitbook("collect", there, *options, cwd=checkout)
    assert runs.read_all(ledger / "results") == rows
    shipped = [path.stem for path in sorted((ledger / "checkpoints").iterdir())]
    assert shipped == [row.name for row in rows if row.experiment == "toy"]

    # What is done goes along, and is not made again.
    more = list_file.read_text().replace("seeds = [0, 1]", "seeds = [0, 1, 2]")
    list_file.write_text(more)
    second = tmp_path / "second"
    assert "1 runs, " in vitbook("pack", second, "toy", *options, cwd=checkout)
    assert "1 made, 0 failed, 0 of 3 still missing" in vitbook("run", cwd=second)


@pytest.fixture
def packed(tmp_path, list_file, made, git):
    """A pack in which the first run of the list was made, as it claims; gives its weights."""

    def make(**changes):
        run, data = read_experiments(list_file)[0].runs[0], tmp_path / "pack" / "data"
        commit = git(ROOT, "rev-parse", "HEAD")
        _, path, weights = made(run, data / "results", data / "checkpoints", commit)
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))
        return weights

    return make


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"commit": "0" * 40}, "commit 000000000000 is none of this checkout's: fetch it"),
        ({"commit": "unknown"}, "commit unknown is none of this checkout's"),
        ({"commit": "HEAD"}, "expected all 40 digits of one"),
        ({"wall_time_s": 2.0}, "of another training: they say another wall_time_s"),
        ({"seed": 9}, "its settings are not those that it is called after"),
        ({"accuracy": 0.6}, r"1 epochs that end at \[0.5\]: a row of another run"),
        ({"curve": []}, r"0 epochs that end at \[\]"),
        ({"accuracy": "high"}, "is no row of the ledger"),
    ],
)
def test_a_row_that_cannot_be_stays_there(changes, why, packed, tmp_path, list_file, place):
    packed(**changes)
    came, stayed = collect(tmp_path / "pack", read_experiments(list_file), place)
    assert not came and not place.ledger.exists()
    (said,) = stayed.values()
    assert re.search(why, said)


@pytest.mark.parametrize("damage", ["gone", "another model", "not a number", "no file of ours"])
def test_weights_that_cannot_be_stay_there(damage, packed, tmp_path, list_file, place):
    weights = packed()
    if damage == "gone":
        weights.unlink()
    elif damage == "another model":
        save_checkpoint(weights, create_model("resnet8_digits", channels=1))
    elif damage == "not a number":
        with safe_open(weights, "pt") as file:
            about, state = file.metadata(), {key: file.get_tensor(key) for key in file.keys()}
        state["head.classifier.weight"].fill_(float("nan"))
        save_file(state, weights, about)
    else:
        weights.write_text("")
    came, stayed = collect(tmp_path / "pack", read_experiments(list_file), place)
    assert not came and len(stayed) == 1 and not place.ledger.exists()


def test_a_good_row_comes_in_once_and_one_that_nobody_asks_for_stays(
    packed, tmp_path, list_file, place
):
    packed()
    toy, tuned = read_experiments(list_file)
    _, stayed = collect(tmp_path / "pack", [tuned], place)
    assert list(stayed.values()) == ["no experiment of the list asks for it"]
    came, stayed = collect(tmp_path / "pack", [toy], place)
    assert len(came) == 1 and not stayed and place.is_done(toy.runs[0], place.done())
    assert collect(tmp_path / "pack", [toy], place) == ([], {})


def test_tables_are_cut_out_whole_in_their_order():
    cut = packing.chosen_tables(LIST, ["tuned", "toy"])
    assert cut.index("[tuned]") < cut.index("[[tuned.runs]]") < cut.index("[toy]")
    assert packing.chosen_tables(LIST, ["toy"]) in LIST
    with pytest.raises(WorkError, match="stand in one place"):
        packing.chosen_tables(LIST + '\n[[toy.runs]]\nmodels = ["resnet8_digits"]\n', ["toy"])


def test_what_cannot_be_packed_is_said(tmp_path, list_file, place, monkeypatch, refused, git):
    options = ["--file", list_file, "--ledger", place.ledger, "--work", place.folder]
    said = refused("experiments", "pack", tmp_path / "new", "toi", *options)
    assert said.startswith("vitbook: unknown experiment 'toi': did you mean toy")
    said = refused("experiments", "pack", tmp_path, "toy", *options)
    assert "is there already: choose another folder" in said
    monkeypatch.setattr(runs, "commit", lambda: "unknown")
    said = refused("experiments", "pack", tmp_path / "new", "toy", *options)
    assert "the checkout is at unknown" in said and "commit what was changed" in said
    monkeypatch.setattr(runs, "commit", lambda: git(ROOT, "rev-parse", "HEAD"))
    said = refused("experiments", "pack", tmp_path / "new", "toy", "--megabytes", 1, *options)
    assert "and 1 were allowed (" in said and "--megabytes" in said
    monkeypatch.setenv("VITBOOK_DATA", str(tmp_path / "empty"))
    far = LIST.replace('dataset = "digits"', 'dataset = "cifar10"')
    far = far.replace('recipe = "digits"', 'recipe = "quick"')
    list_file.write_text(far)
    said = refused("experiments", "pack", tmp_path / "new", "toy", *options)
    assert "nothing to pack: cifar10 is not here: `vitbook data fetch cifar10`" in said
    assert not [path for path in tmp_path.glob("new*")]
