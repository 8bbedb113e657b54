"""A sample of each figure, on which the laws of all are tried."""

from functools import cache
from importlib.resources import files
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTS = {file.stem.removeprefix("test_"): file for file in HERE.glob("*/test_*.py")}
# But the photograph's reader, whose model has tests of its own.
FIGURES = sorted(
    {file.parent.name for file in files("vitbook.figures").glob("*/figure.js")} - {"photo_reader"}
)


@cache
def sample(name: str):
    """The figure that `sample()` in a figure's own test file makes: all laws are tried on it."""
    if name not in TESTS:
        raise LookupError(f"{name} is not tried: tests/figures/*/test_{name}.py needs a sample()")
    spec = spec_from_file_location(f"sample_of_{name}", TESTS[name])
    module = module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VITBOOK_STATIC", "1")
        spec.loader.exec_module(module)
        return module.sample()
