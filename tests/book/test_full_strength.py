"""Every chapter with a switch runs at SCALE = "gpu" to its end: next to no budget, few pictures.

With ALL=1 by whole batches on a pretended GPU, where a tensor left behind on the CPU stops it.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from vitbook import runs

BOOK = Path(__file__).resolve().parents[2] / "book"
SWITCH = re.compile(r'"SCALE, BUDGET = \\"page\\", 1\b')
CHAPTERS = [path for path in sorted(BOOK.glob("*.ipynb")) if SWITCH.search(path.read_text())]
# It takes minutes, and whole batches: a law of it divides by how far the answer rises. What it
# scores at full strength is tested with its study.
LONG = set() if os.environ.get("ALL") else {"attribution"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "chapter", [pytest.param(path, id=path.stem) for path in CHAPTERS if path.stem not in LONG]
)
def test_a_chapter_trains_its_own_models_and_reads_them(chapter):
    script = Path(__file__).with_name("full_strength.py")
    pretended = ["pretended"] if os.environ.get("ALL") else []
    done = subprocess.run(
        [sys.executable, script, chapter, *pretended],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(BOOK.parent), "VITBOOK_STATIC": "1"},
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert re.search(r"Models: (cluttered_)?cifar10, 1 step, seed 0, on ", done.stdout)


@pytest.mark.parametrize("chapter", [pytest.param(path, id=path.stem) for path in CHAPTERS])
def test_the_readme_says_what_a_chapter_trains(chapter):
    """`at_scale` is named with its experiments: their runs, and what they show, are there."""
    names = re.findall(r'at_scale\(\\"(\w+)\\", SCALE, BUDGET\)', chapter.read_text())
    strong = [each for each in runs.read_experiments() if each.name.removesuffix("_gpu") in names]
    made = {run for each in strong if each.name.endswith("_gpu") for run in each.runs}
    shown = sum(run.images for run in made)
    line = f"| [{chapter.stem}](book/{chapter.name}) | {len(made)} | {shown / 1e6:.0f} | "
    assert line in (BOOK.parent / "README.md").read_text() and shown <= 30e6


def test_at_least_eight_chapters_have_the_switch():
    assert len(CHAPTERS) >= 8
