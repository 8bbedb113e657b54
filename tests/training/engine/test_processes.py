import json
import subprocess
import sys
import textwrap

import pytest
import torch
from safetensors import safe_open
from small_runs import few_digits

import vitbook
from vitbook import datasets
from vitbook.runs import Recipe
from vitbook.training import evaluate
from vitbook.training.engine.batches import Batches

RECIPE = dict(
    name="shared", epochs=1, batch_size=32, learning_rate=1e-3, warmup_epochs=0.5, ema=0.9,
    shift=0.5, mixup=0.5, cutmix=0.5, erasing=0.5, policy="trivialaugment", policy_group=4,
)  # fmt: skip

CASES = {
    "labels": {},
    # Each process gets answers that the other's teacher gave.
    "shuffled teacher": dict(distillation="soft", shuffled_teacher=True, mixup=0.0, cutmix=0.0),
    "masked patches": dict(objective="masked_patches"),
}
# All trained by one process and by two, with the same total batch.
SCRIPT = f"""
    import json, sys, torch, vitbook
    from vitbook import datasets
    from vitbook.datasets import Dataset
    from vitbook.runs import Recipe
    from vitbook.training import evaluate, joined, save_checkpoint, train
    from vitbook.training.engine.processes import processes
    torch.set_num_threads(1)
    def few(split, n):
        whole = datasets.load("digits", split)
        return Dataset(whole.images[:n], whole.labels[:n], whole.class_names, whole.provenance)
    with joined("cpu") as device:
        for case, changes in {CASES!r}.items():
            torch.manual_seed(0)
            model = vitbook.create_model("vit_micro_patch2_8")
            recipe = Recipe(**{RECIPE!r} | changes)
            own = "digits-resnet8_digits-digits-seed0"
            teacher = vitbook.load_checkpoint(own).model if recipe.distillation else None
            run = train(model, few("train", 160), recipe, test=few("test", 61), seed=3,
                        teacher=teacher, device=device, progress=False)
            assert run.processes == processes().count
            if processes().is_first:
                path = f"{{sys.argv[1]}}/{{case}}.safetensors"
                save_checkpoint(path, model, provenance={{"curve": list(run.curve)}})
"""


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """The folders of what one process learned, and what two did."""
    script = tmp_path_factory.mktemp("script") / "shared.py"
    script.write_text(textwrap.dedent(SCRIPT))
    folders = []
    for processes in ("1", "2"):
        folders.append(tmp_path_factory.mktemp("learned"))
        command = [
            sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
            processes, script, folders[-1],
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr
    return folders


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_one_and_two_processes_learn_the_same(case, learned):
    kept = []
    for folder in learned:
        with safe_open(folder / f"{case}.safetensors", framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}
            curve = json.loads(file.metadata()["vitbook"])["provenance"]["curve"]
        kept.append((tensors, curve))
    (one, curve), (two, shared) = kept
    difference = max((one[name] - two[name]).abs().max().item() for name in one)
    print("largest difference of a weight:", difference)
    assert difference < 1e-5
    assert shared[0]["loss"] == pytest.approx(curve[0]["loss"], abs=1e-5)
    assert shared[0]["accuracy"] == curve[0]["accuracy"]  # each held-out image counted once


def test_processes_share_the_images_of_a_batch():
    data, recipe = few_digits("train", 100), Recipe(**RECIPE)
    cpu = torch.device("cpu")
    alone = Batches(data, recipe, 3, cpu)[5]
    parts = [Batches(data, recipe, 3, cpu, rank, 2)[5] for rank in (0, 1)]
    for whole, first, second in zip(alone, *parts, strict=True):
        assert torch.allclose(whole[0::2], first, atol=1e-6)
        assert torch.allclose(whole[1::2], second, atol=1e-6)


@pytest.mark.parametrize(
    ("batch", "processes", "words"),
    [
        (30, 4, "batch_size 30 does not divide over 4 processes, and is mixed in pairs: use a "),
        (33, 1, "use a multiple of 2, for example 32"),
        (200, 1, "batch_size 200 is more than the 100 images of an epoch: use at most 100"),
    ],
)
def test_a_batch_that_cannot_be(batch, processes, words):
    recipe = Recipe(**(RECIPE | {"batch_size": batch}))
    with pytest.raises(ValueError, match=words):
        Batches(few_digits("train", 100), recipe, 0, torch.device("cpu"), 0, processes)


@pytest.mark.slow
def test_the_command_under_torchrun(tmp_path):
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
        "-m", "vitbook", "train", "vit_micro_patch2_8", "digits", "--epochs", "1",
        "--threads", "1", "--device", "cpu", "--out", str(tmp_path), "--tensorboard",
        str(tmp_path / "board"),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("on the held-out part of digits") == 1
    (path,) = tmp_path.glob("*.safetensors")
    (row,) = vitbook.runs.read(tmp_path)
    assert row.processes == 2
    model = vitbook.load_checkpoint(path).model
    assert evaluate(model, datasets.load("digits", "test")) == pytest.approx(row.accuracy)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = EventAccumulator(str(next((tmp_path / "board").iterdir()))).Reload()
    assert set(board.Tags()["scalars"]) == {"loss", "accuracy", "learning_rate"}
    assert board.Scalars("accuracy")[0].value == pytest.approx(row.accuracy)
