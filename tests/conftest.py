import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of the real data sets, where a machine has them."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("VITBOOK_DATA", beside))
    if not (folder / "cifar10").is_dir():
        pytest.skip(f"no real data sets: set VITBOOK_DATA to their folder (looked in {folder})")
    return folder


@pytest.fixture
def plain_vitbook():
    """Run a snippet as a user would: in a fresh interpreter, without the checking of shapes."""

    def run(code: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
