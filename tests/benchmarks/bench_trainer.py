"""A training step of the page's trainer, in Node, against torch's on one thread: `make bench`.

Both take the same batch of 32 digits through forward, backward and AdamW. Node's WebAssembly is
that of Chromium. A round is forty steps; rounds alternate.
"""

import json
import subprocess
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
SIZES = {"micro": {"width": 64, "depth": 4}, "nano": {"width": 32, "depth": 2}}


@pytest.mark.parametrize("name", SIZES)
def test_against_torch(name):
    digits = datasets.load("digits", "train")
    images, labels = datasets.normalize(digits.images[:BATCH]), digits.labels[:BATCH]
    model = vitbook.create_model(f"vit_{name}_patch2_8")
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY, fused=True)
    width = SIZES[name]["width"]
    settings = SIZES[name] | {
        "batch": BATCH, "heads": 4, "hidden": 2 * width, "patch": 2, "side": 8, "classes": 10,
        "positions": True, "post": False, "smoothing": 0.0,
    }  # fmt: skip
    values = torch.cat([each.detach().flatten() for each in model.parameters()]).tolist()
    first = {"settings": settings, "values": values, "images": [images.flatten().tolist()],
             "labels": [labels.tolist()], "rate": RATE, "decay": DECAY}  # fmt: skip
    command = [node(), PROGRAM, str(files("vitbook.trainer"))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:

        def ask(task):
            process.stdin.write(json.dumps(task) + "\n")
            process.stdin.flush()
            process.stdout.readline()

        def torch_steps():
            for _ in range(STEPS):
                loss = F.cross_entropy(model(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

        ask(first)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        ratio = compare_speed(lambda: ask({"times": STEPS}), torch_steps, pairs=20, warmup=2)
        torch.set_num_threads(threads)
        process.stdin.close()
    print(f"\n{name}, batch {BATCH}, one thread: {ratio} as fast as torch")
