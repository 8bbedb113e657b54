"""A chapter can be taken away: its notebook, its study, its tests and its line in the contents."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LEAVING = ("interventions", "cnn_designs")
COPIED = ("book", "tests", "tools", "vitbook")
IMPORTED = """
import importlib, pkgutil, sys, vitbook
names = [module.name for module in pkgutil.walk_packages(vitbook.__path__, "vitbook.")]
for name in names:
    importlib.import_module(name)
print(len(names), vitbook.__file__)
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory) -> Path:
    """A copy of the checkout without two of its chapters; the data are its own."""
    copy = tmp_path_factory.mktemp("house")
    for path in ROOT.iterdir():
        if path.name in COPIED:
            shutil.copytree(path, copy / path.name, ignore=shutil.ignore_patterns("__pycache__"))
        elif path.suffix in (".md", ".toml", ".yml", ".cff") or path.name in ("Makefile", "data"):
            (copy / path.name).symlink_to(path)
    contents = (copy / "_toc.yml").read_text()
    (copy / "_toc.yml").unlink()
    for name in LEAVING:
        (copy / "book" / f"{name}.ipynb").unlink()
        contents, lines = re.subn(rf"^ *- file: book/{name}\n", "", contents, flags=re.MULTILINE)
        assert lines == 1
        for path in [*copy.glob(f"vitbook/studies/{name}*"), *copy.glob(f"tests/studies/*{name}*")]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    (copy / "_toc.yml").write_text(contents)
    return copy


def run(house: Path, *command: str | Path) -> str:
    environment = os.environ | {"PYTHONPATH": str(house)}
    done = subprocess.run(command, cwd=house, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout


def test_the_library_stands(house):
    number, file = run(house, sys.executable, "-c", IMPORTED).split()
    assert int(number) > 100 and file == str(house / "vitbook" / "__init__.py")
    assert "experiments" in run(house, sys.executable, "-m", "vitbook", "--help")


def test_imports_still_run_one_way(house):
    contracts = run(house, Path(sys.executable).with_name("lint-imports"), "--no-cache")
    assert " 0 broken" in contracts


def test_no_other_test_takes_from_a_study():
    taking = re.compile(r"^\s*(from|import) vitbook\.studies", re.MULTILINE)
    others = [p for p in ROOT.glob("tests/**/*.py") if "studies" not in p.relative_to(ROOT).parts]
    assert not [str(path) for path in others if taking.search(path.read_text("utf-8"))]


@pytest.mark.slow
def test_the_tests_that_stay_are_collected(house):
    told = run(
        house, sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"
    )
    assert int(re.search(r"(\d+)(/\d+)? tests collected", told)[1]) > 1000
