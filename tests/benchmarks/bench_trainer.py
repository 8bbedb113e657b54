"""A training step of the page's trainer, in Node, against torch's on one thread: `make bench`.

Both take the same batch of 32 digits through forward, backward and AdamW. Node's WebAssembly is
that of Chromium. A round is forty steps; rounds alternate.
"""

import json
import subprocess
from contextlib import ExitStack
from importlib.resources import files
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from vitbook_stills import node

import vitbook
from vitbook import datasets
from vitbook.measure import compare_speed

PROGRAM = Path(__file__).parents[1] / "trainer" / "step.mjs"
STEPS, BATCH, RATE, DECAY = 40, 32, 1e-3, 0.05
MODELS = {
    "vit_micro_patch2_8": ("vit", {"width": 64, "depth": 4}),
    "vit_nano_patch2_8": ("vit", {"width": 32, "depth": 2}),
    "resnet8_digits": ("resnet", {"kind": "resnet"}),
}


@pytest.fixture
def page():
    """Asks Node: for a model, or for more of its steps."""
    command = [node(), PROGRAM, str(files("vitbook.trainer"))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with ExitStack() as stack:

        def start(first: dict):
            process = stack.enter_context(subprocess.Popen(command, **pipes))
            stack.callback(process.stdin.close)

            def ask(task: dict):
                process.stdin.write(json.dumps(task) + "\n")
                process.stdin.flush()
                process.stdout.readline()

            ask(first)
            return lambda: ask({"times": STEPS})

        yield start


@pytest.mark.parametrize("name", MODELS)
def test_against_torch(name, page):
    compiled, body = MODELS[name]
    digits = datasets.load("digits", "train")
    images, labels = datasets.normalize(digits.images[:BATCH]), digits.labels[:BATCH]
    model = vitbook.create_model(name)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY, fused=True)
    settings = body | {
        "batch": BATCH, "heads": 4, "hidden": 2 * body.get("width", 0), "patch": 2, "side": 8,
        "classes": 10, "positions": True, "post": False, "smoothing": 0.0,
    }  # fmt: skip
    values = torch.cat([each.flatten() for each in model.state_dict().values()]).tolist()
    first = {"settings": settings, "values": values, "images": [images.flatten().tolist()],
             "labels": [labels.tolist()], "rate": RATE, "decay": DECAY}  # fmt: skip

    def torch_steps():
        for _ in range(STEPS):
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    simd = page(first | {"compiled": f"{compiled}.wasm"})
    plain = page(first | {"compiled": f"{compiled}-plain.wasm"})
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    ratio = compare_speed(simd, torch_steps, pairs=20, warmup=2)
    torch.set_num_threads(threads)
    print(f"\n{name}, batch {BATCH}, one thread: {ratio} as fast as torch")
    print(f"with SIMD {compare_speed(simd, plain, pairs=20, warmup=2)} as fast as without")
