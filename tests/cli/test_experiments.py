import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from typer.testing import CliRunner

from vitbook import runs
from vitbook.__main__ import app
from vitbook.cli import experiments, worker
from vitbook.cli.rates import Rates
from vitbook.cli.worker import Worker
from vitbook.cli.workplace import WorkError, Workplace
from vitbook.published_counts import macs
from vitbook.runs import PlannedRun, read_experiments

RUNS = """
[trial]
question = "Does it learn?"
dataset = "digits"
recipe = "digits"
images = {images}
epochs = {epochs}

[[trial.runs]]
models = ["vit_micro_patch2_8"]
seeds = {seeds}
ships = true
"""
LEDGER_ROW = "scaling_digits-vit_micro_d1_patch2_8-seed0-"
TIMES = {"wall_time_s", "images_per_second", "peak_memory_mb", "device", "commit", "command"}


class Machine:
    """A list, a ledger and a workplace of their own."""

    def __init__(self, folder):
        self.list, self.ledger, self.work = (folder / name for name in ("list", "ledger", "work"))
        self.options = ["--file", self.list, "--ledger", self.ledger, "--work", self.work]
        self.place = Workplace(self.work, self.ledger)

    def asks(self, images=128, epochs=1, seeds=(0,), more=""):
        text = RUNS.format(images=images, epochs=epochs, seeds=list(seeds))
        self.list.write_text(text + more)
        return read_experiments(self.list)[0].runs

    def start(self, *words, **environment):
        words = ["run", "--dirty", "--threads", 1, *words, *self.options]
        return subprocess.Popen(
            [sys.executable, "-m", "vitbook", "experiments", *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | environment,
            start_new_session=True,
        )

    def run(self, *words, code=0, **environment):
        process = self.start(*words, **environment)
        said = process.communicate()[0]
        assert process.returncode == code, said
        return said

    def rows(self):
        return runs.read_all(self.ledger / "results")


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def weights(path):
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}


def assert_same_but_for_times(one, other):
    ours, theirs = asdict(one), asdict(other)
    assert {k for k in ours if ours[k] != theirs[k]} <= TIMES


@pytest.mark.slow
def test_a_list_is_worked_off_and_told(machine, told, tmp_path):
    asked = machine.asks(seeds=(0, 1))
    before = told("experiments", "list", *machine.options)
    assert re.search(r"^trial +2 +0 +0 +0 +2 +256 +not measured +Does it learn\?", before, re.M)

    # Two side by side make each run once.
    pair = [machine.start(), machine.start()]
    said = "".join(process.communicate()[0] for process in pair)
    assert [process.returncode for process in pair] == [0, 0], said
    assert sorted(re.findall(r"(trial-\S+): begins", said)) == [run.name for run in asked]
    first, second = machine.rows()
    assert (first.experiment, first.seed, second.seed) == ("trial", 0, 1)
    assert first.command.startswith("python -m vitbook train vit_micro_patch2_8 digits --recipe")
    assert [PlannedRun.of(row) for row in (first, second)] == list(asked)
    after = told("experiments", "list", *machine.options)
    assert re.search(r"^trial +2 +2 +0 +0 +0 +0 +0.0 ", after, re.M)

    # A checkpoint that ships and is gone is made again.
    checkpoint = machine.ledger / "checkpoints" / f"{first.name}.safetensors"
    there = weights(checkpoint)
    assert all(t.dtype != torch.float32 for t in there.values())
    checkpoint.unlink()
    assert "1 made, 0 failed, 0 of 2 still missing" in machine.run()
    assert all(torch.equal(tensor, there[name]) for name, tensor in weights(checkpoint).items())
    (first, _) = machine.rows()
    one_by_one = told("experiments", "list", "trial", *machine.options)
    assert re.search(rf"{first.name} +digits +128 +done +{first.accuracy:.2%}", one_by_one)

    # Another definition is another run; the row that nobody asks for any more is kept and told.
    machine.asks(images=192)
    changed = told("experiments", "list", *machine.options)
    assert re.search(r"^trial +1 +0 +0 +0 +1 ", changed, re.M)
    assert f"{second.name}: no experiment asks for it any more; it is kept" in changed
    assert len(machine.rows()) == 2


@pytest.mark.slow
def test_what_is_not_there_waits_and_what_fails_is_told(machine, tmp_path):
    broken = """
[[trial.runs]]
models = ["vit_micro_patch2_8"]
changes = { learning_rate = 1e12, warmup_epochs = 0.0, gradient_clip = 0.0 }
[far]
question = "On photographs?"
dataset = "cifar10"
recipe = "quick"
[[far.runs]]
models = ["vit_mini_patch4_32"]
seeds = [0, 1]
[later]
question = "And then?"
needs = "a teacher"
"""
    asked = machine.asks(images=256, epochs=2, more=broken)
    with machine.place.claimed(asked[0]):  # another process makes it
        said = machine.run(code=2, VITBOOK_DATA=str(tmp_path / "empty"))
    assert "0 made, 1 failed, 4 of 4 still missing" in said
    assert re.search(r"failed: the loss became nan in epoch \d of 2: lower the learning rate", said)
    assert "2 runs wait for cifar10, which is not here: `vitbook data fetch cifar10`" in said
    assert "later needs a teacher" in said
    assert said.splitlines()[-1] == "vitbook: 1 failed, see above; the same command tries again"
    assert "Traceback" not in said


def test_a_run_that_another_process_makes_is_left_to_it(machine, told):
    (planned,) = machine.asks()
    with machine.place.claimed(planned) as ours:
        assert ours
        listed = told("experiments", "list", *machine.options)
        assert re.search(r"^trial +1 +0 +1 +0 +0 ", listed, re.M)
        assert Worker(machine.place, machine.work, (), 0.0).make(planned) == "left"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "--minutes", 0], "--minutes 0: expected more than 0, or leave it out"),
        (["run", "--minutes", "nan"], "--minutes nan: expected more than 0"),
        (["run", "--minutes", "inf"], "--minutes inf: expected more than 0"),
        (["list", "--device", "foo"], "device foo: expected cpu, cuda or mps"),
        (["list", "--threads", "0"], "threads 0: expected 1 to"),
        (["run", "tryal"], "unknown experiment or run 'tryal': did you mean trial"),
        (["list", "--ledger", "work/in"], "the folder of unfinished runs, .*: choose two apart"),
        (["list", "--file", "gone"], "no list of experiments gone: mend the path"),
    ],
)
def test_bad_input_is_one_sentence(words, message, machine, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    machine.asks()
    said = refused("experiments", words[0], *machine.options, *words[1:])
    assert re.match(f"vitbook: {message}", said) and len(said.splitlines()) == 1


def test_no_room(machine, refused, monkeypatch):
    machine.asks()
    monkeypatch.setattr(experiments, "ROOM", 10**18)
    monkeypatch.setattr(os, "nice", lambda _: None)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    said = refused("experiments", "run", "--dirty", *machine.options)
    assert "MB are free in" in said and "free some space" in said


@pytest.fixture
def finished(machine, made):
    """A planned run whose files wait in the workplace to be carried into the ledger."""
    (planned,) = machine.asks()
    folder = machine.work / ("0" * 12)
    return planned, made(planned, folder)[0], folder


def test_a_look_changes_nothing_and_a_row_that_waits_is_done(machine, told, finished):
    planned, row, folder = finished
    listed = told("experiments", "list", *machine.options)
    assert re.search(r"^trial +1 +1 +0 +0 +0 ", listed, re.M)
    assert len(list(folder.iterdir())) == 2 and not machine.ledger.exists()
    place = machine.place
    assert place.collect(planned) and not place.collect(planned)
    assert machine.rows() == [row] and place.is_done(planned, place.done())
    older = replace(row, experiment="", definition="")  # is called otherwise, and comes later
    runs.record(older, machine.ledger / "results")
    assert len(machine.rows()) == 2 and place.is_done(planned, place.done())


@pytest.mark.parametrize("damage", ["row", "weights", "no weights"])
def test_a_damaged_file_stops_its_own_run_alone(machine, damage, capsys, finished):
    planned, row, folder = finished
    path = folder / f"{row.name}.{'json' if damage == 'row' else 'safetensors'}"
    path.unlink() if damage == "no weights" else path.write_text("")
    assert Worker(machine.place, folder, (), 0.0).make(planned) == "failed"
    assert not machine.ledger.exists()
    (said,) = capsys.readouterr().out.splitlines()
    assert f"{planned.name}: failed: {folder}" in said
    assert said.endswith("): remove both, and the run is made again")


def test_what_changed_files_began_is_left_to_them(machine):
    (planned,) = machine.asks()
    state = machine.work / "dirty" / f"{planned.name}.unfinished"
    state.parent.mkdir(parents=True)
    state.write_text("")
    assert machine.place.begun(planned) is None
    assert replace(machine.place, dirty=True).begun(planned) == state


def test_a_run_goes_on_by_the_words_that_began_it(machine, tmp_path):
    """Its own code may have another recipe under the same name."""
    (planned,) = machine.asks()
    first = worker.command_of(planned, None, tmp_path)
    assert first == list(planned.command)
    (tmp_path / f"{planned.name}.command").write_text('["train", "as it was"]')
    state = tmp_path / f"{planned.name}.unfinished"
    assert worker.command_of(planned, state, tmp_path) == ["train", "as it was"]
    assert worker.command_of(planned, None, tmp_path) == first


def test_hours_come_from_measured_rates(machine, finished):
    row = finished[1]
    (planned,) = machine.asks(images=6400)
    row = replace(row, device="Chip, 1 thread", recipe=asdict(planned.recipe), wall_time_s=64.0)
    left = {planned: 6400 / 2}  # at 100 images a second
    for device in ("Chip, 1 thread", "Chip, 2 threads"):
        rates = Rates(runs.answers([row]), device)
        assert (rates.device, rates.hours([planned], left)) == ("Chip, 1 thread", "0.0")
        assert rates.hours([planned], {planned: 3.6e5}) == "1.0"
    assert Rates(runs.answers([row]), "Other, 1 thread").hours([planned], left) == "not measured"
    # Two gradients a step take twice as long, and a row of such a run says so of others.
    radius = {"sharpness_radius": 0.1}
    twice = replace(planned, recipe=replace(planned.recipe, **radius))
    uphill = replace(row, recipe=row.recipe | radius, wall_time_s=128.0)
    for each in (row, uphill):
        rates = Rates(runs.answers([each]), "Chip, 1 thread")
        found = [rates.hours([run], {run: 3.6e6}) for run in (planned, twice)]
        assert found == ["10.0", "20.0"]
    # Without a row of its own a model takes as long as its arithmetic.
    photo = replace(row, model="vit_mini_patch4_32", dataset="cifar10", wall_time_s=0.0064)
    rates = Rates(runs.answers([photo]), "Chip, 1 thread")
    other = replace(planned, model="resnet20")
    ratio = macs("vit_mini_patch4_32", None) / macs("resnet20", None)
    assert rates.hours([other], {other: 3.6e8}) == f"{3.6e8 / (1e6 * ratio) / 3600:.1f}"


def test_the_code_is_that_of_the_commit(tmp_path, monkeypatch, git):
    root, folder = tmp_path / "root", tmp_path / "work"
    root.mkdir()
    monkeypatch.setattr(worker, "ROOT", root)
    with pytest.raises(WorkError, match="git cannot read .*which commit made it .*: clone the rep"):
        worker.code_of_commit(folder)
    git(root, "init", "-q")
    (root / "file").write_text("one")
    git(root, "add", "file")
    git(root, "commit", "-qm", "one")
    commit = git(root, "rev-parse", "HEAD")
    monkeypatch.setattr(runs, "commit", lambda: commit)
    out = worker.code_of_commit(folder)
    assert out == folder / commit[:12]
    (root / "file").write_text("two")
    git(root, "commit", "-qam", "two")
    assert (out / "code" / "file").read_text() == "one"
    assert worker.code_of_commit(folder) == out
    monkeypatch.setattr(runs, "commit", lambda: commit + "+")
    with pytest.raises(WorkError, match="differ from their commit.* add --dirty"):
        worker.code_of_commit(folder)
    monkeypatch.setattr(worker, "ROOT", root / "lib")
    (root / "lib").mkdir()
    with pytest.raises(WorkError, match="lib is part of another git checkout"):
        worker.code_of_commit(folder)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(WorkError, match="git is not installed, and a row says"):
        worker.code_of_commit(folder)


@pytest.mark.slow
def test_kills_lose_and_double_nothing(machine, tmp_path):
    """What was killed with its worker, and goes on, is what one process makes in one go."""
    (planned,) = machine.asks(images=1920, epochs=3)
    for wanted in (".unfinished", ".json"):  # the first state; the row, maybe before it is carried
        process = machine.start("--minutes", 5)
        while process.poll() is None and not [*machine.work.glob(f"*/*{wanted}")]:
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    machine.run()
    (row,) = machine.rows()
    once = tmp_path / "once"
    words = [*planned.command, "--threads", "1", "--out", str(once)]
    assert not CliRunner().invoke(app, words, catch_exceptions=False).exit_code
    (whole,) = runs.read_all(once)
    assert_same_but_for_times(row, whole)
    ours = weights(machine.ledger / "checkpoints" / f"{row.name}.safetensors")
    theirs = weights(once / f"{row.name}.safetensors")
    assert all(torch.equal(ours[name], theirs[name]) for name in ours | theirs)
    left = {path.suffix for path in machine.work.rglob("*") if path.is_file()}
    assert left <= {".command", ".lock", ".log", ".safetensors"}


@pytest.mark.slow
def test_a_row_of_the_ledger_is_made_again(machine):
    """On another machine: the same bits where processor and versions are the same."""
    (row,) = [row for row in runs.read() if row.name.startswith(LEDGER_ROW)]
    machine.list.write_text((Path(runs.data_folder()) / "experiments.toml").read_text())
    machine.run(row.name)
    (again,) = machine.rows()
    assert again.name == row.name
    if (row.device, row.versions) == (again.device, again.versions):
        assert_same_but_for_times(row, again)
    assert again.accuracy == pytest.approx(row.accuracy, abs=0.02)
    assert again.curve[0]["loss"] == pytest.approx(row.curve[0]["loss"], rel=1e-3)
