"""A chapter runs where there is a GPU, to its last solution; with ALL=1, every one does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
from pretended_gpu import PretendedError, PretendedGPU

BOOK = Path(__file__).resolve().parents[2] / "book"
# One that freezes a body and trains a head, one that hooks a model; attribution takes minutes.
DIFFERENT = ("fine_tuning", "interventions")
CHAPTERS = [
    pytest.param(path, id=path.stem)
    for path in sorted(BOOK.glob("*.ipynb"))
    if os.environ.get("ALL") or path.stem in DIFFERENT
]


@pytest.mark.slow
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_runs_on_a_gpu_to_its_last_solution(chapter):
    script = Path(__file__).with_name("pretended_gpu.py")
    done = subprocess.run(
        [sys.executable, script, chapter],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(BOOK.parent), "VITBOOK_PLOTS": "page"},
    )
    assert done.returncode == 0, "\n".join(done.stdout.splitlines()[-20:]) + done.stderr[-2000:]


@pytest.mark.parametrize(
    "refused",
    [
        lambda here, there: here + there,
        lambda here, there: torch.stack([here, there]),
        lambda here, there: torch.nn.functional.linear(here, there),
        lambda here, there: here[there[:, 0].long()],
        lambda here, there: there.numpy(),
        lambda here, there: torch.rand(2, device=there.device, generator=torch.Generator()),
    ],
    ids=["sum", "list", "module", "index", "numpy", "generator"],
)
def test_what_a_gpu_refuses_is_refused(refused):
    with PretendedGPU(), pytest.raises(PretendedError):
        refused(torch.zeros(2, 2), torch.zeros(2, 2, device="cuda"))


def test_the_device_goes_where_a_gpus_would():
    with PretendedGPU():
        layer = torch.nn.Linear(2, 2).to("cuda")
        images = torch.ones(3, 2)
        out = layer(images.to(layer.weight.device))
        out.sum().backward()
        there = [layer.weight, layer.weight.grad, out[0], out.detach(), torch.zeros_like(out)]
        here = [images, out.cpu(), out.to("cpu", torch.float64), torch.zeros(3)]
        number = images * out.sum().item()
        assert {each.device.type for each in there} == {"cuda"}
        assert {each.device.type for each in [*here, number]} == {"cpu"}
    assert layer.weight.device.type == "cpu"  # nothing outlives the block
