"""Every chapter with a switch runs at SCALE = "gpu" to its end: next to no budget, few pictures.

With ALL=1 on a pretended GPU, where a tensor that is left behind on the CPU stops it.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

BOOK = Path(__file__).resolve().parents[2] / "book"
SWITCH = re.compile(r'"SCALE, BUDGET = \\"page\\", 1\b')
CHAPTERS = [path for path in sorted(BOOK.glob("*.ipynb")) if SWITCH.search(path.read_text())]


@pytest.mark.slow
@pytest.mark.parametrize("chapter", [pytest.param(path, id=path.stem) for path in CHAPTERS])
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
    assert "Models: cifar10, 1 step, seed 0, on " in done.stdout
