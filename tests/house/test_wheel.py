"""What an index would get: how large it is, what it brings, and with how old packages it works."""

import json
import os
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path
from statistics import median
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CORE = "\n".join(PROJECT["dependencies"])
# Where models of our own, of timm, and of torch's own parts are looked into.
PROBING = ("capture/test_capture.py", "attention/test_rollout.py")
COMPANIONS = ("hypothesis", "pytest", "scikit-learn", "timm", "torchvision", "transformers")
WHEELS = ("--only-binary", ":all:")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Made by way of the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT]
    subprocess.run(build, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def test_it_is_small(wheel):
    """The code by one bound, plans and printed tables by another, the ledger by its rows."""
    parts = ZipFile(wheel).infolist()
    data = {
        Path(part.filename).name: part.compress_size
        for part in parts
        if part.filename.startswith("vitbook/_data/")
    }
    ledger = {name: size for name, size in data.items() if name.endswith(".xz")}
    assert sorted(ledger) == ["measurements.json.xz", "results.json.xz"]
    assert wheel.stat().st_size - sum(data.values()) < 1.29e6
    assert sum(data.values()) - sum(ledger.values()) < 3e4
    assert ledger["results.json.xz"] / len(list((ROOT / "data" / "results").glob("*.json"))) < 500
    names = [part.filename for part in parts]
    kept_out = ("/answers/", "/checkpoints/", "/heads/")
    assert not [name for name in names if any(folder in name for folder in kept_out)]


def test_the_ledger_travels_whole(wheel, tmp_path):
    """Packed, and read as in the checkout; a row that is recorded later takes its own place."""
    ZipFile(wheel).extractall(tmp_path)
    code = """
        import sys
        from dataclasses import asdict, replace
        from vitbook import runs
        print(runs.__file__)
        checkout = sys.argv[1]
        rows, measured = runs.read_all(), runs.measurements()
        assert rows == runs.read_all(f"{checkout}/results") and len(rows) > 200
        assert measured == runs.measurements(folder=f"{checkout}/measurements")
        runs.record(replace(rows[3], accuracy=0.125))
        assert runs.read_all()[3].accuracy == 0.125
        assert len(runs.read_all()) == len(rows)
    """
    given = [sys.executable, "-c", textwrap.dedent(code), ROOT / "data"]
    own = os.environ | {"PYTHONPATH": tmp_path}
    done = subprocess.run(given, capture_output=True, text=True, cwd=tmp_path, env=own)
    assert done.returncode == 0 and done.stdout.startswith(str(tmp_path)), done.stderr


class Stranger:
    """An environment that takes the lowest versions that the wheel allows and this python runs."""

    def __init__(self, folder: Path):
        self.folder, self.python = folder, folder / "venv" / "bin" / "python"
        self.lowest = folder / "lowest.txt"
        self.lowest.write_text(
            uv("pip", "compile", "-", *WHEELS, "--resolution", "lowest-direct", given=CORE)
        )
        uv("venv", "--python", sys.executable, folder / "venv")

    def install(self, *what: str | Path) -> None:
        to = ("--python", self.python)
        uv("pip", "install", *to, *WHEELS, "--constraint", self.lowest, *what)

    def has(self) -> dict[str, str]:
        listed = json.loads(uv("pip", "list", "--python", self.python, "--format", "json"))
        return {canonicalize_name(each["name"]): each["version"] for each in listed}

    def run(self, *arguments: str | Path) -> str:
        """Away from the checkout."""
        answer = subprocess.run(
            [self.python, *arguments], cwd=self.folder, capture_output=True, text=True
        )
        assert answer.returncode == 0, answer.stdout + answer.stderr
        return answer.stdout


def uv(*words: str | Path, given: str = "") -> str:
    command = [sys.executable, "-m", "uv", "--quiet", *words]
    answer = subprocess.run(command, input=given, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


@pytest.fixture(scope="module")
def stranger(tmp_path_factory, wheel) -> Stranger:
    """Who has torch and timm."""
    try:
        uv("pip", "compile", "-", "--no-cache", given="einops")
    except AssertionError as error:
        pytest.skip(f"no package index can be reached: {str(error).splitlines()[0]}")
    stranger = Stranger(tmp_path_factory.mktemp("stranger"))
    stranger.install("torch", "timm")
    return stranger


LOOK = """
import time
start = time.perf_counter()
import torch
middle = time.perf_counter()
import vitbook.analysis
print(middle - start, time.perf_counter() - middle, vitbook.__file__)
"""
PROBE = """
import timm, torch
from vitbook.analysis import capture_attention, mean_attention_distance

model, images = timm.create_model("vit_tiny_patch16_224").eval(), torch.rand(2, 3, 224, 224)
with capture_attention(model) as maps, torch.no_grad():
    model(images)
assert [tuple(map.shape) for map in maps.values()] == 12 * [(2, 3, 197, 197)]
distances = mean_attention_distance(model, images)
assert distances.shape == (12, 3) and (distances > 16).all()
"""


def test_a_stranger_with_torch_and_timm(stranger, wheel, capsys):
    before = stranger.has()
    stranger.install(wheel)
    brought = stranger.has().keys() - before.keys()
    assert brought == {"einops", "jaxtyping", "msgspec", "vitbook"}
    stranger.run("-c", PROBE)

    rounds = [stranger.run("-c", LOOK).split() for _ in range(3)]
    assert all(file.startswith(str(stranger.folder)) for _, _, file in rounds)
    ours = median(float(own) for _, own, _ in rounds)
    ratio = median(float(own) / float(torchs) for torchs, own, _ in rounds)
    with capsys.disabled():
        print(
            f"\nbeyond torch and timm: {', '.join(sorted(brought))}; vitbook.analysis is imported "
            f"in {ours:.2f} s after torch, {ratio:.2f} of torch's time (medians of {len(rounds)})"
        )
    assert ratio < 0.5


def test_probing_with_the_lowest_versions(stranger, wheel, capsys):
    stranger.install(wheel)
    stranger.install(*COMPANIONS)
    has, core = stranger.has(), [Requirement(line) for line in CORE.splitlines()]
    with capsys.disabled():
        print("\n" + ", ".join(f"{each.name} {has[each.name]}" for each in core))
    if sys.version_info < (3, 12):  # for a later one the lowest may have no wheels
        for each in core:
            assert each.specifier == SpecifierSet(f">={has[each.name].partition('+')[0]}")
    files = [ROOT / "tests" / "analysis" / name for name in PROBING]
    alone = ("-o", "addopts=--import-mode=importlib", "-W", "default", "-p", "no:cacheprovider")
    config = ("-c", ROOT / "pyproject.toml", "--rootdir", ROOT)
    which = ("-m", "not slow", "-k", "not of_the_book")  # the wheel has no checkpoints
    stranger.run("-m", "pytest", "-q", *which, *alone, *config, *files)
