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
from small_runs import PulledPlugError, bits, few_digits, micro, same
from torch import nn

import vitbook
from vitbook import runs
from vitbook.model_utilities import digest
from vitbook.runs import Recipe, get_recipe
from vitbook.training import RunInUseError, RunStoppedError, UnfinishedRunError, run, train

# A run with everything that could remember something: mean, moments, mixing, stochastic depth.
RECIPE = Recipe(
    name="all", epochs=2, batch_size=32, learning_rate=1e-3, warmup_epochs=1.0, ema=0.9,
    dropout=0.1, drop_path=0.2, shift=0.5, mixup=0.5, cutmix=0.5, repeats=2, erasing=0.5,
    policy="trivialaugment",
)  # fmt: skip

TEACHER = "digits-resnet8_digits-digits-seed0"


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
        model, few_digits(n=64), recipe, test=few_digits("test", 40), seed=seed, progress=False,
        state=path, save_every_s=0, device="cpu", teacher=teacher,
    ), model  # fmt: skip


TAUGHT = replace(RECIPE, distillation="soft", temperature=3.0)
SHUFFLED = replace(TAUGHT, shuffled_teacher=True, mixup=0.0, cutmix=0.0, repeats=1, epochs=4)


MUON = replace(RECIPE, optimizer="muon")


@pytest.mark.parametrize(
    "recipe", [RECIPE, TAUGHT, SHUFFLED, MUON], ids=["labels", "taught", "shuffled", "muon"]
)
def test_a_run_goes_on_to_the_same_bits(recipe, tmp_path):
    def reach(step, path):
        taught = vitbook.load_checkpoint(TEACHER).model if recipe.distillation else None
        return train_until(step, path, recipe, teacher=taught)

    whole, model = reach(10**9, tmp_path / "whole")
    path = tmp_path / "cut"
    for step in (1, 3):  # the run has 8 steps; each count starts anew
        with pytest.raises(PulledPlugError):
            reach(step, path)
    parts, again = reach(10**9, path)
    assert same(bits(model), bits(again))
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
    with pytest.raises(RunStoppedError, match="stopped after step 5 of 8: the same call goes on"):
        train(micro(), few_digits(n=64), RECIPE, stop=lambda: next(asked), **options)
    again = micro()
    rest = train(again, few_digits(n=64), RECIPE, stop=lambda: False, **options)
    assert rest.curve == whole.curve
    assert same(bits(model), bits(again))


@pytest.fixture(scope="module")
def state_of_two_steps(tmp_path_factory):
    path = tmp_path_factory.mktemp("state") / "run.unfinished"
    with pytest.raises(PulledPlugError):
        train_until(2, path)
    return path.read_bytes()


@pytest.fixture
def state(state_of_two_steps, tmp_path):
    """The file of a run that was cut after two steps."""
    path = tmp_path / "run.unfinished"
    path.write_bytes(state_of_two_steps)
    return path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": 4}, "its seed is 3, this one's is 4"),
        ({"recipe": replace(RECIPE, batch_size=64)}, "its recipe.batch_size is 32, this one's is"),
    ],
)
def test_another_run_is_not_gone_on_with(change, words, state):
    before = state.read_bytes()
    with pytest.raises(UnfinishedRunError, match=f"of another run: {words}"):
        train_until(5, state, **change)
    assert state.read_bytes() == before


def test_a_state_that_is_cut_or_changed_anywhere_is_refused_and_kept(state):
    whole = state.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    step = whole.index(b'\\"step\\": 2') + len(b'\\"step\\": ')
    cuts = [whole[:cut] for cut in (0, 8, 100, len(whole) - 1)]
    changes = [bytearray(whole) for _ in range(3)]
    for changed, place in zip(changes, (step, header + 1001, len(whole) - 1), strict=True):
        changed[place] ^= 1
    for bad in map(bytes, cuts + changes):
        state.write_bytes(bad)
        with pytest.raises(UnfinishedRunError, match="is damaged or no unfinished run .*remove it"):
            train_until(5, state)
        assert state.read_bytes() == bad


def test_a_state_of_before_there_was_a_digest_or_a_number_of_the_recipe(state):
    with safe_open(state, framework="pt") as file:
        about = file.metadata()
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}
    # There is no state of a generator in it.
    assert {name.split(".")[0] for name in tensors} == {"model", "mean", "optimizer"}
    del about["digest"]
    state.write_bytes(save(tensors, metadata=about))
    with pytest.raises(UnfinishedRunError, match="of an earlier vitbook, which kept no digest"):
        train_until(5, state)
    told = json.loads(about["identity"])
    del told["recipe"]["sharpness_radius"]  # by default it changes nothing
    about["identity"] = json.dumps(told, sort_keys=True)
    state.write_bytes(save(tensors, metadata=about | {"digest": digest(tensors, about)}))
    with pytest.raises(UnfinishedRunError, match="sharpness_radius is 0.0, this one's is 0.1"):
        train_until(2, state, replace(RECIPE, sharpness_radius=0.1))
    train_until(10**9, state)


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
            attempt.same = same(bits(model), before)

    with pytest.raises(RunStoppedError):
        attempt(8, lambda: True)
    with pytest.raises(UnfinishedRunError, match="is of another model: .*1.weight .8, 64. where"):
        attempt(16, None)
    assert attempt.same


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


COMMAND = [
    sys.executable, "-m", "vitbook", "train", "vit_micro_patch2_8", "digits", "--epochs", "2",
    "--share", "0.5", "--threads", "1", "--device", "cpu", "--save-every", "0",
]  # fmt: skip


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


TAUGHT_TOO = ["--teacher", TEACHER, "--set", "distillation=hard"]
WITHOUT_LABELS = ["--set", "objective=byol", "--set", "label_smoothing=0"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes", [[], TAUGHT_TOO, WITHOUT_LABELS] if os.environ.get("ALL") else [TAUGHT_TOO]
)
def test_killed_at_random_moments(changes, tmp_path):
    same_bits_after(tmp_path, 20 if os.environ.get("ALL") else 3, [*COMMAND, *changes])


@pytest.mark.slow
def test_asked_to_end_a_command_says_that_it_goes_on(tmp_path):
    process = subprocess.Popen(
        [*COMMAND, "--out", str(tmp_path)], stderr=subprocess.PIPE, text=True
    )
    state = tmp_path / "digits-vit_micro_patch2_8-digits-seed0.unfinished"
    while process.poll() is None and not state.exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    said = process.communicate()[1]
    assert process.returncode == 2
    assert "vitbook: stopped after step" in said.splitlines()[-1]
    assert state.exists() and "Traceback" not in said
