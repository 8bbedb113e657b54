import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch
from filelock import FileLock
from safetensors import safe_open
from safetensors.torch import save
from torch import nn

import vitbook
from vitbook import datasets, runs
from vitbook.datasets import Dataset
from vitbook.model_utilities import digest
from vitbook.runs import Recipe, get_recipe
from vitbook.runs.recipe import OBJECTIVES
from vitbook.training import RunInUseError, RunStoppedError, UnfinishedRunError, run, train

# A run with everything that could remember something: mean, moments, mixing, stochastic depth.
RECIPE = Recipe(
    name="all", epochs=3, batch_size=32, learning_rate=1e-3, warmup_epochs=1.0, ema=0.9,
    dropout=0.1, drop_path=0.2, shift=0.5, mixup=0.5, cutmix=0.5, repeats=2, erasing=0.5,
    policy="trivialaugment",
)  # fmt: skip

TEACHER = "digits-resnet8_digits-digits-seed0"


def few_digits(split="train", n=128):
    whole = datasets.load("digits", split)
    return Dataset(whole.images[:n], whole.labels[:n], whole.class_names, whole.provenance)


def micro():
    torch.manual_seed(0)
    return vitbook.create_model("vit_micro_patch2_8")


class PulledPlugError(Exception):
    pass


def train_until(step, path, recipe=RECIPE, seed=3, teacher=None):
    """Train, and stop dead after a step, when it has been written."""
    model, steps = micro(), 0

    def stop(module, _):
        nonlocal steps
        steps += module.training
        if steps > step:
            raise PulledPlugError

    model.register_forward_pre_hook(stop)
    return train(
        model, few_digits(), recipe, test=few_digits("test", 40), seed=seed, progress=False,
        state=path, save_every_s=0, device="cpu", teacher=teacher,
    ), model  # fmt: skip


def bits(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


TAUGHT = replace(RECIPE, distillation="soft", temperature=3.0)
SHUFFLED = replace(TAUGHT, shuffled_teacher=True, mixup=0.0, cutmix=0.0, repeats=1, epochs=6)


@pytest.mark.parametrize("recipe", [RECIPE, TAUGHT, SHUFFLED], ids=["labels", "taught", "shuffled"])
def test_a_run_goes_on_to_the_same_bits(recipe, tmp_path):
    def reach(step, path):
        taught = vitbook.load_checkpoint(TEACHER).model if recipe.distillation else None
        return train_until(step, path, recipe, teacher=taught)

    whole, model = reach(10**9, tmp_path / "whole")
    path = tmp_path / "cut"
    for step in (1, 4, 8, 9):  # the run has 24 steps; each count starts anew
        with pytest.raises(PulledPlugError):
            reach(step, path)
    parts, again = reach(10**9, path)
    assert all(torch.equal(bits(model)[name], tensor) for name, tensor in bits(again).items())
    assert whole.curve == parts.curve
    assert parts.data_passes == whole.data_passes
    assert parts.device == whole.device


def test_a_run_on_two_devices_says_so(tmp_path):
    threads = torch.get_num_threads()
    with pytest.raises(PulledPlugError):
        train_until(3, tmp_path / "moved")
    torch.set_num_threads(threads + 1)
    runs.device_name.cache_clear()
    try:
        run, _ = train_until(10**9, tmp_path / "moved")
    finally:
        torch.set_num_threads(threads)
        runs.device_name.cache_clear()
    assert run.device.count(", then ") == 1 and f"{threads + 1} threads" in run.device


def test_a_run_that_is_asked_to_end_writes_what_it_has(tmp_path):
    whole, model = train_until(10**9, tmp_path / "whole")
    path, asked = tmp_path / "asked", iter([False] * 4 + [True])
    options = dict(test=few_digits("test", 40), seed=3, progress=False, state=path, device="cpu")
    with pytest.raises(RunStoppedError, match="stopped after step 5 of 24: the same call goes on"):
        train(micro(), few_digits(), RECIPE, stop=lambda: next(asked), **options)
    again = micro()
    rest = train(again, few_digits(), RECIPE, stop=lambda: False, **options)
    assert rest.curve == whole.curve
    assert all(torch.equal(bits(model)[name], tensor) for name, tensor in bits(again).items())


def test_asked_at_its_last_step_a_run_is_finished(tmp_path):
    recipe, steps = replace(RECIPE, epochs=1), []
    run = train(
        micro(), few_digits(), recipe, progress=False, state=tmp_path / "x",
        stop=lambda: steps.append(1) or len(steps) == 8,
    )  # fmt: skip
    assert len(run.curve) == 1


@pytest.mark.slow
def test_asked_to_end_a_command_says_that_it_goes_on(tmp_path):
    command = [*COMMAND, "--out", str(tmp_path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    state = tmp_path / "digits-vit_micro_patch2_8-digits-seed0.unfinished"
    while process.poll() is None and not state.exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    said = process.communicate()[1]
    assert process.returncode == 2
    assert "vitbook: stopped after step" in said.splitlines()[-1]
    assert state.exists() and "Traceback" not in said


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": 4}, "its seed is 3, this one's is 4"),
        (
            {"recipe": replace(RECIPE, batch_size=64)},
            "its recipe.batch_size is 32, this one's is 64:",
        ),
    ],
)
def test_another_run_is_not_gone_on_with(change, words, tmp_path):
    path = tmp_path / "run.unfinished"
    with pytest.raises(PulledPlugError):
        train_until(2, path)
    before = path.read_bytes()
    with pytest.raises(UnfinishedRunError, match=f"of another run: {words}"):
        train_until(5, path, **change)
    assert path.read_bytes() == before


def test_a_state_cut_at_any_byte(tmp_path):
    path = tmp_path / "run.unfinished"
    with pytest.raises(PulledPlugError):
        train_until(2, path)
    whole = path.read_bytes()
    for cut in [0, 1, 8, 100, len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:cut])
        with pytest.raises(UnfinishedRunError, match="is damaged or no unfinished run .*remove it"):
            train_until(5, path)
        assert path.read_bytes() == whole[:cut]


def test_a_state_with_one_bit_changed(tmp_path):
    path = tmp_path / "run.unfinished"
    with pytest.raises(PulledPlugError):
        train_until(2, path)
    whole = path.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    step = whole.index(b'\\"step\\": 2') + len(b'\\"step\\": ')
    for place in [step, header, header + 1001, (header + len(whole)) // 2, len(whole) - 1]:
        changed = bytearray(whole)
        changed[place] ^= 1
        path.write_bytes(changed)
        with pytest.raises(UnfinishedRunError, match="its bytes are not those that were written"):
            train_until(5, path)


def test_a_state_of_before_there_was_a_digest(tmp_path):
    path = tmp_path / "run.unfinished"
    with pytest.raises(PulledPlugError):
        train_until(2, path)
    with safe_open(path, framework="pt") as file:
        state, about = {name: file.get_tensor(name) for name in file.keys()}, file.metadata()
    path.write_bytes(save(state, metadata={k: v for k, v in about.items() if k != "digest"}))
    with pytest.raises(UnfinishedRunError, match="of an earlier vitbook, which kept no digest"):
        train_until(5, path)


def test_a_run_goes_on_whose_recipe_lacked_a_number(tmp_path):
    """One that recipes have gained since: by default it changes nothing."""
    path = tmp_path / "run.unfinished"
    with pytest.raises(PulledPlugError):
        train_until(2, path)
    with safe_open(path, framework="pt") as file:
        state, about = {name: file.get_tensor(name) for name in file.keys()}, file.metadata()
    told = json.loads(about["identity"])
    del told["recipe"]["sharpness_radius"], about["digest"]
    about["identity"] = json.dumps(told, sort_keys=True)
    path.write_bytes(save(state, metadata=about | {"digest": digest(state, about)}))
    with pytest.raises(UnfinishedRunError, match="sharpness_radius is 0.0, this one's is 0.1"):
        train_until(2, path, replace(RECIPE, sharpness_radius=0.1))
    train_until(10**9, path)


def test_a_state_that_cannot_be_read_is_not_called_damaged(tmp_path, monkeypatch):
    path = tmp_path / "run.unfinished"
    path.write_bytes(b"of hours")

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("pathlib.Path.open", refuse)
    with pytest.raises(PermissionError):
        train_until(5, path)


def test_a_state_of_another_model_fills_nothing(tmp_path):
    def attempt(width, stop):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.Linear(width, 10))
        before = bits(model)
        try:
            train(
                model, few_digits(), replace(RECIPE, dropout=0.0, drop_path=0.0), progress=False,
                state=tmp_path / "x", stop=stop,
            )  # fmt: skip
        finally:
            attempt.same = all(torch.equal(bits(model)[name], before[name]) for name in before)

    with pytest.raises(RunStoppedError):
        attempt(8, lambda: True)
    with pytest.raises(UnfinishedRunError, match="is of another model: .*1.weight .8, 64. where"):
        attempt(16, None)
    assert attempt.same


def test_a_state_holds_no_pickle_and_no_generator(tmp_path):
    path = tmp_path / "run.unfinished"
    with pytest.raises(PulledPlugError):
        train_until(2, path)
    with safe_open(path, framework="pt") as file:
        names, about = set(file.keys()), file.metadata()
    kinds = {name.split(".")[0] for name in names}
    assert kinds == {"model", "mean", "optimizer"}
    assert json.loads(about["progress"])["step"] == 2


def test_two_runs_in_one_folder(tmp_path):
    recipe = get_recipe("digits", epochs=1)
    lock = FileLock(tmp_path / "digits-vit_micro_patch2_8-digits-seed0.lock")
    with lock, pytest.raises(RunInUseError, match="another process is writing digits-vit_micro"):
        run("vit_micro_patch2_8", "digits", recipe, folder=tmp_path, progress=False)
    assert [file.suffix for file in tmp_path.iterdir()] == [".lock"]


def test_a_run_leaves_its_result_and_nothing_else(tmp_path):
    recipe = get_recipe("digits", epochs=1)
    (tmp_path / ".digits-vit_micro_patch2_8-digits-seed0.unfinished.x").write_text("half")
    result = run("vit_micro_patch2_8", "digits", recipe, folder=tmp_path, progress=False)
    assert {file.suffix for file in tmp_path.iterdir()} - {".lock"} == {".safetensors", ".json"}
    assert result.images_per_second > 0 and result.peak_memory_mb > 50
    assert result.processes == 1 and result.data_passes == pytest.approx(22 * 64 / 1442)


def training(model, epochs=4):
    return [
        sys.executable, "-m", "vitbook", "train", model, "digits", "--epochs", str(epochs),
        "--threads", "1", "--device", "cpu", "--save-every", "0",
    ]  # fmt: skip


COMMAND = training("vit_micro_patch2_8")


def weights(folder):
    (path,) = folder.glob("*.safetensors")
    with safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}


def kill_and_restart(folder, kills, seed, command):
    """Start the command, kill it at a random moment of its training, start it again."""
    chance, states = random.Random(seed), folder / f"digits-{command[4]}-digits-seed0.unfinished"
    reached = []
    for _ in range(kills):
        process = subprocess.Popen([*command, "--out", str(folder)], stderr=subprocess.DEVNULL)
        before = states.stat().st_mtime_ns if states.exists() else None
        while process.poll() is None:  # until it has trained at least one step
            if states.exists() and states.stat().st_mtime_ns != before:
                break
            time.sleep(0.005)
        time.sleep(chance.uniform(0, 0.1))
        process.send_signal(signal.SIGKILL)
        process.wait()
        if states.exists():
            with safe_open(states, framework="pt") as file:  # never half a file
                reached.append(json.loads(file.metadata()["progress"])["step"])
    subprocess.run([*command, "--out", str(folder)], check=True, capture_output=True)
    return reached


def same_bits_after(tmp_path, kills, command=COMMAND):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    subprocess.run([*command, "--out", str(whole)], check=True, capture_output=True)
    reached = kill_and_restart(cut, kills, kills, command)
    assert len(reached) >= kills // 2 and reached == sorted(reached), reached
    print("killed after steps", reached)
    ours, theirs = weights(cut), weights(whole)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert {file.suffix for file in cut.iterdir()} - {".lock"} == {".safetensors", ".json"}


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path):
    same_bits_after(tmp_path, kills=20 if os.environ.get("ALL") else 10)


@pytest.mark.slow
def test_killed_beside_a_teacher(tmp_path):
    same_bits_after(tmp_path, 4, [*COMMAND, "--teacher", TEACHER, "--set", "distillation=hard"])


@pytest.mark.slow
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_killed_without_labels(objective, tmp_path):
    """Masks, second views and a slow copy go on as they would have."""
    model = "igpt_micro_patch1_8" if objective == "next_pixels" else "vit_micro_patch2_8"
    changes = ["--set", f"objective={objective}", "--set", "label_smoothing=0"]
    same_bits_after(tmp_path, 2, [*training(model, epochs=2), *changes, "--share", "0.5"])
