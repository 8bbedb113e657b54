import json
import os
import random
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

from vitbook import runs
from vitbook.__main__ import main
from vitbook.cli import experiments, worker
from vitbook.cli.rates import Rates
from vitbook.cli.workplace import WorkError, Workplace
from vitbook.models import create_model
from vitbook.published_counts import macs
from vitbook.runs import PlannedRun, read_experiments
from vitbook.training import save_checkpoint

RUNS = """
[trial]
question = "Does it learn?"
dataset = "digits"
recipe = "digits"
images = {images}
epochs = {epochs}

[[trial.runs]]
models = {models}
seeds = {seeds}
ships = true
"""
LEDGER_ROW = "scaling_digits-vit_micro_d1_patch2_8-seed0-"
TIMES = {"wall_time_s", "images_per_second", "peak_memory_mb", "device", "commit", "command"}


class Machine:
    """A list, a ledger and a workplace of their own."""

    def __init__(self, folder):
        self.list, self.ledger = folder / "list.toml", folder / "ledger"
        self.work = folder / "work"
        self.options = ["--file", self.list, "--ledger", self.ledger, "--work", self.work]

    def asks(self, models=("vit_micro_patch2_8",), images=128, epochs=1, seeds=(0,), more=""):
        models = json.dumps(list(models))
        text = RUNS.format(models=models, images=images, epochs=epochs, seeds=list(seeds))
        self.list.write_text(text + more)
        return self

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

    def weights(self, row):
        with safe_open(self.ledger / "checkpoints" / f"{row.name}.safetensors", "pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def say(capsys, monkeypatch, *words, code=None):
    """What the command prints, run in this process."""
    monkeypatch.setattr(sys, "argv", ["vitbook", "experiments", *map(str, words)])
    with pytest.raises(SystemExit) as done:
        main()
    assert done.value.code == code or (code is None and not done.value.code)
    return "".join(capsys.readouterr())


@pytest.mark.slow
def test_a_list_is_worked_off_and_told(machine, capsys, monkeypatch):
    machine.asks(seeds=(0, 1))
    before = say(capsys, monkeypatch, "list", *machine.options)
    assert re.search(r"^trial +2 +0 +0 +0 +2 +256 +not measured +Does it learn\?", before, re.M)

    said = machine.run()
    assert "2 made, 0 failed, 0 of 2 still missing" in said
    first, second = machine.rows()
    assert (first.experiment, first.seed, second.seed) == ("trial", 0, 1)
    assert first.command.startswith("python -m vitbook train vit_micro_patch2_8 digits --recipe")
    asked = read_experiments(machine.list)[0].runs
    assert [PlannedRun.of(row) for row in (first, second)] == list(asked)
    assert all(t.dtype != torch.float32 for t in machine.weights(first).values())
    after = say(capsys, monkeypatch, "list", *machine.options)
    assert re.search(r"^trial +2 +2 +0 +0 +0 +0 +0.0 ", after, re.M)
    weights = machine.weights(first)  # a checkpoint that ships and is gone is made again
    (machine.ledger / "checkpoints" / f"{first.name}.safetensors").unlink()
    assert "1 made" in machine.run()
    remade = machine.weights(first)
    assert all(torch.equal(remade[name], weights[name]) for name in weights)
    (first, _) = machine.rows()
    one_by_one = say(capsys, monkeypatch, "list", "trial", *machine.options)
    assert re.search(rf"{first.name} +digits +128 +done +{first.accuracy:.2%}", one_by_one)
    assert "0 made, 0 failed, 0 of 2" in machine.run()

    # Another definition is another run; the row that nobody asks for any more is kept and told.
    machine.asks(seeds=(0,), images=192)
    changed = say(capsys, monkeypatch, "list", *machine.options)
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
    machine.asks(images=256, epochs=2, seeds=(0,), more=broken)
    said = machine.run(code=2, VITBOOK_DATA=str(tmp_path / "empty"))
    assert "1 made, 1 failed, 3 of 4 still missing" in said
    assert re.search(r"failed: the loss became nan in epoch \d of 2: lower the learning rate", said)
    assert "2 runs wait for cifar10, which is not here: `vitbook data fetch cifar10`" in said
    assert "later needs a teacher" in said
    assert said.splitlines()[-1] == "vitbook: 1 failed, see above; the same command tries again"
    assert "Traceback" not in said


@pytest.mark.slow
def test_two_side_by_side_make_each_run_once(machine):
    machine.asks(seeds=(0, 1))
    pair = [machine.start(), machine.start()]
    said = [process.communicate()[0] for process in pair]
    assert [process.returncode for process in pair] == [0, 0], said
    begun = re.findall(r"(trial-\S+): begins", "".join(said))
    assert sorted(begun) == sorted(set(begun)) and len(begun) == 2
    assert len(machine.rows()) == 2


@pytest.mark.slow
def test_a_run_that_another_process_makes_is_left_to_it(machine, capsys, monkeypatch):
    machine.asks()
    (planned,) = read_experiments(machine.list)[0].runs
    place = Workplace(machine.work, machine.ledger)
    with place.claimed(planned) as ours:
        assert ours
        told = say(capsys, monkeypatch, "list", *machine.options)
        assert re.search(r"^trial +1 +0 +1 +0 +0 ", told, re.M)
        assert "0 made, 0 failed, 1 of 1 still missing" in machine.run()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "--minutes", 0], "--minutes 0: expected more than 0, or leave it out"),
        (["run", "--minutes", "nan"], "--minutes nan: expected more than 0"),
        (["run", "--minutes", "inf"], "--minutes inf: expected more than 0"),
        (["list", "--device", "foo"], "device foo: expected cpu, cuda or mps"),
        (["list", "--threads", "0"], "threads 0: expected 1 to"),
        (["run", "tryal"], "unknown experiment or run 'tryal': did you mean trial"),
        (["list", "tryal"], "unknown experiment or run 'tryal': did you mean trial"),
    ],
)
def test_bad_input_is_one_sentence(words, message, machine, capsys, monkeypatch):
    machine.asks()
    said = say(capsys, monkeypatch, *words, *machine.options, code=2)
    assert said.startswith(f"vitbook: {message}") and len(said.splitlines()) == 1


def test_no_list_and_no_room(machine, capsys, monkeypatch):
    said = say(capsys, monkeypatch, "list", *machine.options, code=2)
    assert said == f"vitbook: no list of experiments {machine.list}: mend the path\n"
    machine.asks()
    monkeypatch.setattr(experiments, "ROOM", 10**18)
    monkeypatch.setattr(os, "nice", lambda _: None)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    words = ["run", "--dirty", *machine.options]
    said = say(capsys, monkeypatch, *words, code=2)
    assert "MB are free in" in said and "free some space" in said


def finished(machine):
    """A planned run whose files wait in the workplace to be carried into the ledger."""
    (planned,) = read_experiments(machine.list)[0].runs
    folder = machine.work / ("0" * 12)
    folder.mkdir(parents=True)
    model = create_model(planned.model, channels=1)
    row = runs.Result(
        model=planned.model, parameters=1, dataset="digits", recipe=asdict(planned.recipe),
        seed=0, accuracy=0.5, curve=[], probes=[], data_passes=1.0, wall_time_s=1.0,
        images_per_second=1.0, peak_memory_mb=1, precision="float32", processes=1, device="d",
        versions={}, commit="c", command="x", provenance={"name": "digits"},
        experiment="trial", definition=planned.digest,
    )  # fmt: skip
    runs.record(row, folder)
    save_checkpoint(folder / f"{row.name}.safetensors", model)
    return planned, row, folder


def test_a_look_changes_nothing_and_a_row_that_waits_is_done(machine, capsys, monkeypatch):
    machine.asks()
    planned, row, folder = finished(machine)
    told = say(capsys, monkeypatch, "list", *machine.options)
    assert re.search(r"^trial +1 +1 +0 +0 +0 ", told, re.M)
    assert len(list(folder.iterdir())) == 2 and not machine.ledger.exists()
    place = Workplace(machine.work, machine.ledger)
    assert place.collect(planned) and not place.collect(planned)
    assert machine.rows() == [row] and place.is_done(planned, place.done())


@pytest.mark.parametrize("damage", ["row", "weights", "no weights"])
def test_a_damaged_file_stops_its_own_run_alone(machine, damage):
    machine.asks()
    planned, row, folder = finished(machine)
    path = folder / f"{row.name}.{'json' if damage == 'row' else 'safetensors'}"
    path.unlink() if damage == "no weights" else path.write_text("")
    place, said = Workplace(machine.work, machine.ledger), []
    with pytest.raises(WorkError, match="is damaged .*remove both, and the run is made again"):
        place.collect(planned)
    outcome = worker.make_if_missing(planned, place, folder, [], 0.0, said.append)
    assert outcome == "failed" and not machine.ledger.exists()
    assert len(said) == 1 and said[0].startswith(f"{planned.name}: failed: {folder}")


def test_of_two_rows_of_a_run_the_one_with_its_checkpoint_counts(machine):
    machine.asks()
    planned, row, _ = finished(machine)
    place = Workplace(machine.work, machine.ledger)
    place.collect(planned)
    older = replace(row, experiment="", definition="")  # is called otherwise, and comes later
    runs.record(older, machine.ledger / "results")
    assert len(machine.rows()) == 2 and place.is_done(planned, place.done())


@pytest.mark.parametrize(("work", "ledger"), [("a", "a"), ("a", "a/b"), ("a/b", "a")])
def test_folders_in_each_other_are_refused(work, ledger, tmp_path):
    with pytest.raises(ValueError, match="lie in each other: choose two apart"):
        Workplace(tmp_path / work, tmp_path / ledger)


def test_what_changed_files_began_is_left_to_them(machine):
    machine.asks()
    (planned,) = read_experiments(machine.list)[0].runs
    state = machine.work / "dirty" / f"{planned.name}.unfinished"
    state.parent.mkdir(parents=True)
    state.write_text("")
    assert Workplace(machine.work, machine.ledger).begun(planned) is None
    assert Workplace(machine.work, machine.ledger, dirty=True).begun(planned) == state


def test_a_run_goes_on_by_the_words_that_began_it(machine, tmp_path):
    """Its own code may have another recipe under the same name."""
    machine.asks()
    (planned,) = read_experiments(machine.list)[0].runs
    first = worker._command(planned, None, tmp_path)
    assert first == list(planned.command)
    (tmp_path / f"{planned.name}.command").write_text('["train", "as it was"]')
    state = tmp_path / f"{planned.name}.unfinished"
    assert worker._command(planned, state, tmp_path) == ["train", "as it was"]
    assert worker._command(planned, None, tmp_path) == first


def test_hours_come_from_measured_rates(machine):
    machine.asks(images=6400)
    (planned,) = read_experiments(machine.list)[0].runs
    _, row, _ = finished(machine)
    row = replace(row, device="Chip, 1 thread", wall_time_s=64.0)  # 100 images a second
    left = {planned: 6400 / 2}
    for device in ("Chip, 1 thread", "Chip, 2 threads"):
        rates = Rates({"x": row}, device)
        assert (rates.device, rates.hours([planned], left)) == (
            "Chip, 1 thread",
            f"{32 / 3600:.1f}",
        )
    assert Rates({"x": row}, "Other, 1 thread").hours([planned], left) == "not measured"
    # Two gradients a step take twice as long, and a row of such a run says so of others.
    radius = {"sharpness_radius": 0.1}
    twice = replace(planned, recipe=replace(planned.recipe, **radius))
    uphill = replace(row, recipe=row.recipe | radius, wall_time_s=128.0)
    for each in (row, uphill):
        rates = Rates({"x": each}, "Chip, 1 thread")
        found = [rates.hours([run], {run: 3.6e6}) for run in (planned, twice)]
        assert found == ["10.0", "20.0"]
    # Without a row of its own a model takes as long as its arithmetic.
    photo = replace(row, model="vit_mini_patch4_32", dataset="cifar10", wall_time_s=0.0064)
    rates, other = Rates({"x": photo}, "Chip, 1 thread"), replace(planned, model="resnet20")
    ratio = macs("vit_mini_patch4_32", None) / macs("resnet20", None)
    hours = 3.6e8 / (1e6 * ratio) / 3600
    assert rates.hours([other], {other: 3.6e8}) == f"{hours:.1f}"


def git(folder, *words):
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    done = subprocess.run(["git", "-C", folder, *who, *words], capture_output=True, check=True)
    return done.stdout.decode().strip()


def test_the_code_is_that_of_the_commit(tmp_path, monkeypatch):
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


def kill_now_and_then(machine, kills):
    """Kill the whole command at random moments, each time after it has got somewhere."""
    chance, reached = random.Random(kills), []

    def seen():
        files = [*machine.work.glob("*/*.unfinished"), *machine.ledger.glob("results/*.json")]
        return {(path, path.stat().st_mtime_ns) for path in files if path.exists()}

    for _ in range(kills):
        before, process = seen(), machine.start()
        while process.poll() is None and not seen() - before:
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.5))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        reached.append(len(list(machine.ledger.glob("results/*.json"))))
    assert reached == sorted(reached)
    return reached


@pytest.mark.slow
def test_kills_lose_and_double_nothing(tmp_path):
    """And two machines make the same rows but for times."""
    machines = []
    for name in ("whole", "cut"):
        (tmp_path / name).mkdir()
        machines.append(Machine(tmp_path / name).asks(
            images=3840, epochs=3, seeds=(0, 1)
        ))  # fmt: skip
    whole, cut = machines
    whole.run()
    kill_now_and_then(cut, 2)
    cut.run()
    assert len(whole.rows()) == len(cut.rows()) == 2
    for one, other in zip(whole.rows(), cut.rows(), strict=True):
        ours, theirs = asdict(one), asdict(other)
        assert {k for k in ours if ours[k] != theirs[k]} <= TIMES
        mine, its = whole.weights(one), cut.weights(other)
        assert all(torch.equal(mine[name], its[name]) for name in mine | its)
    left = {path.suffix for path in cut.work.rglob("*") if path.is_file()}
    assert left <= {".command", ".lock", ".log", ".safetensors"}


@pytest.mark.slow
def test_a_row_of_the_ledger_is_made_again(machine, capsys, monkeypatch):
    """On another machine: the same bits where processor and versions are the same."""
    (row,) = [row for row in runs.read() if row.name.startswith(LEDGER_ROW)]
    machine.list.write_text((Path(runs.data_folder()) / "experiments.toml").read_text())
    machine.run(row.name)
    (again,) = machine.rows()
    assert again.name == row.name
    ours, theirs = asdict(row), asdict(again)
    if (row.device, row.versions) == (again.device, again.versions):
        assert {k for k in ours if ours[k] != theirs[k]} <= TIMES
    assert again.accuracy == pytest.approx(row.accuracy, abs=0.02)
    assert again.curve[0]["loss"] == pytest.approx(row.curve[0]["loss"], rel=1e-3)
