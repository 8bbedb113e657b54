"""A chapter runs with the versions that Colab has, and installs none in place of its own."""

import json
import lzma
import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
COLAB = Path(__file__).with_name("colab.txt")
HELD = dict(
    line.split("==")
    for line in COLAB.read_text().partition("\n\n")[0].splitlines()
    if not line.startswith("#")
)
CHAPTERS = [pytest.param(path, id=path.stem) for path in sorted((ROOT / "book").glob("*.ipynb"))]
pytestmark = pytest.mark.slow


def run(*command: str | Path) -> str:
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> str:
    """What the first cell installs, in place of the repository's address."""
    folder = tmp_path_factory.mktemp("wheel")
    run("build", "--wheel", "--no-isolation", "--outdir", folder, ROOT)
    return f"vitbook[chapters] @ {next(folder.glob('*.whl')).as_uri()}"


def test_the_wheel_is_whole(wheel):
    archive = ZipFile(wheel.partition("file://")[2])
    names = archive.namelist()
    sources = [
        path.relative_to(ROOT).as_posix()
        for suffix in ("py", "js", "css")
        for path in (ROOT / "vitbook").rglob(f"*.{suffix}")
    ]
    assert set(sources) <= set(names)
    checkpoints = (ROOT / "data" / "checkpoints").rglob("*.safetensors")
    assert {f"vitbook/_{path.relative_to(ROOT).as_posix()}" for path in checkpoints} <= set(names)
    for kind in ("results", "measurements"):  # a file each in the checkout, one for all in a wheel
        packed = json.loads(lzma.decompress(archive.read(f"vitbook/_data/{kind}.json.xz")))
        files = (ROOT / "data" / kind).glob("*.json")
        assert packed == {file.name: json.loads(file.read_text()) for file in files}


def test_the_first_cell_leaves_what_colab_has(wheel, tmp_path):
    """pip plans it where Colab's packages are there by name and version alone."""
    python = tmp_path / "venv" / "bin" / "python"
    run("venv", "--without-pip", tmp_path / "venv")
    site = next((tmp_path / "venv" / "lib").glob("python*/site-packages"))
    for line in COLAB.read_text().splitlines():
        name, _, version = line.partition("==")
        if version:
            about = site / f"{name.replace('-', '_')}-{version}.dist-info"
            about.mkdir()
            lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", ""]
            about.joinpath("METADATA").write_text("\n".join(lines))
    plan = tmp_path / "plan.json"
    try:
        run("pip", "--python", python, "install", "--dry-run", "--report", plan, wheel)
    except AssertionError as error:
        if "No matching distribution" in str(error):
            pytest.skip("no package index can be reached, or it lacks what chapters need")
        raise
    planned = json.loads(plan.read_text())["install"]
    names = {canonicalize_name(each["metadata"]["name"]) for each in planned}
    assert "vitbook" in names
    assert names & set(map(canonicalize_name, HELD)) == set()


@pytest.fixture(scope="module")
def colab(tmp_path_factory) -> Path:
    """The python of an environment with Colab's versions."""
    folder = tmp_path_factory.mktemp("colab")
    run("uv", "venv", "--python", sys.executable, folder / "venv")
    python = folder / "venv" / "bin" / "python"
    run("uv", "pip", "install", "--python", python, "--requirement", COLAB)
    return python


def execute(notebook: nbformat.NotebookNode, python: Path, folder: Path, wheel: str) -> None:
    """Run a chapter with the kernel of `python`, away from the checkout."""
    command = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]

    class Specs(KernelSpecManager):
        def get_kernel_spec(self, kernel_name):
            return KernelSpec(argv=command, display_name="Colab", language="python")

    kernel = AsyncKernelManager(kernel_name="colab", kernel_spec_manager=Specs())
    hidden = ("PYTHONPATH", "VITBOOK_STATIC")
    environment = {
        **{key: value for key, value in os.environ.items() if key not in hidden},
        "VITBOOK_SOURCE": wheel,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    client = NotebookClient(
        notebook, km=kernel, timeout=900, resources={"metadata": {"path": str(folder)}}
    )
    client.execute(env=environment, cleanup_kc=True)


@pytest.mark.skipif(not os.environ.get("ALL"), reason="takes half an hour: make colab ALL=1")
@pytest.mark.parametrize("path", CHAPTERS)
def test_a_chapter_runs_with_colabs_versions(path, colab, wheel, tmp_path):
    """The first of them installs vitbook by its first cell; the others find it."""
    execute(nbformat.read(path, as_version=4), colab, tmp_path, wheel)
    listed = json.loads(run("uv", "pip", "list", "--python", colab, "--format", "json"))
    has = {canonicalize_name(each["name"]): each["version"].partition("+")[0] for each in listed}
    assert "vitbook" in has
    assert {
        name for name, version in HELD.items() if has[canonicalize_name(name)] != version
    } == set()
