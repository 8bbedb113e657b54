"""The compiled files: that they are those of their sources, and say the same without SIMD."""

import hashlib
from importlib.resources import files
from importlib.util import find_spec

import pytest
import torch
from compile_trainer import COMPILED, compile_trainer

import vitbook
from vitbook import datasets

BATCH, STEPS = 8, 2
MODELS = {
    "vit": ("vit_micro_patch2_8", {
        "kind": "vit", "width": 64, "depth": 4, "heads": 4, "hidden": 128, "patch": 2,
        "positions": True, "post": False,
    }),
    "resnet": ("resnet8_digits", {"kind": "resnet"}),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_without_simd_it_is_the_same_bits(name, steps):
    model, settings = MODELS[name]
    torch.manual_seed(0)
    values = [each.flatten() for each in vitbook.create_model(model).state_dict().values()]
    digits = datasets.load("digits", "train")
    task = {
        "settings": {"batch": BATCH, "side": 8, "classes": 10, "smoothing": 0.1} | settings,
        "values": torch.cat(values).tolist(), "rate": 1e-3, "decay": 0.05,
        "images": datasets.normalize(digits.images[: STEPS * BATCH]).reshape(STEPS, -1).tolist(),
        "labels": digits.labels[: STEPS * BATCH].reshape(STEPS, -1).tolist(),
    }  # fmt: skip
    assert steps(f"{name}.wasm", **task) == steps(f"{name}-plain.wasm", **task)


@pytest.mark.skipif(find_spec("ziglang") is None, reason="needs Zig: pip install ziglang==0.13.0")
@pytest.mark.parametrize("name", COMPILED)
def test_a_compiled_file_is_that_of_its_source(name, tmp_path):
    compile_trainer(name, tmp_path)
    shipped = files("vitbook.trainer") / name
    digests = [hashlib.sha256(each.read_bytes()).hexdigest() for each in (tmp_path / name, shipped)]
    assert digests[0] == digests[1]
