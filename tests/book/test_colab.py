"""A chapter runs where torch is already there and vitbook is not, as on Colab."""

import ast
import json
import lzma
import os
import subprocess
import sys
import sysconfig
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from zipfile import ZipFile

import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
# fmt: off
ON_COLAB = [
    "ipykernel", "ipywidgets", "matplotlib", "nbclient", "pandas", "pillow", "pip", "scikit-image",
    "scikit-learn", "seaborn", "timm", "torch", "torchvision", "tqdm",
]
# fmt: on
CHAPTERS = [pytest.param(path, id=path.stem) for path in sorted((ROOT / "book").glob("*.ipynb"))]
# `make test` and `make book` execute each chapter: here a quick one, with a figure and the ledger.
WHOLE = [each for each in CHAPTERS if os.environ.get("ALL") or each.id == "shifted_patches"]
pytestmark = pytest.mark.slow


def closure(names: list[str]) -> list:
    """The installed distributions that `names` bring with them."""
    queue, found = [(name, "") for name in names], {}
    while queue:
        name, extra = queue.pop()
        if (key := (canonicalize_name(name), extra)) in found:
            continue
        try:
            found[key] = distribution(name)
        except PackageNotFoundError:
            continue
        for r in map(Requirement, found[key].requires or ()):
            if not r.marker or r.marker.evaluate({"extra": extra}):
                queue += [(r.name, "")] + [(r.name, each) for each in r.extras]
    return [installed for (_, extra), installed in found.items() if not extra]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT]
    subprocess.run(build, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture
def colab(tmp_path) -> Path:
    """The python of an environment that sees Colab's packages, through links, outside itself.

    pip takes what it finds there as installed, and would have to put another torch beside it.
    """
    site = tmp_path / "colab-packages"
    site.mkdir()
    for installed in closure(ON_COLAB):
        for top in {file.parts[0] for file in installed.files} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(installed.locate_file(top))
    venv = tmp_path / "colab"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    paths = {"base": str(venv), "platbase": str(venv)}
    (Path(sysconfig.get_path("purelib", "venv", paths)) / "colab.pth").write_text(f"{site}\n")
    return venv / "bin" / "python"


def ask(python: Path, module: str) -> list[str]:
    code = f"import {module}; print({module}.__version__); print({module}.__file__)"
    environment = {**os.environ, "PYTHONPATH": ""}
    answer = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, cwd=python.parent, env=environment
    )
    return answer.stdout.split() if answer.returncode == 0 else [answer.stderr]


def code_of(path: Path) -> list[str]:
    cells = nbformat.read(path, as_version=4).cells
    return [cell.source for cell in cells if cell.cell_type == "code"]


def imports_of(path: Path) -> set[str]:
    transform = TransformerManager().transform_cell
    return {
        ast.unparse(node)
        for source in code_of(path)
        for node in ast.walk(ast.parse(transform(source)))
        if isinstance(node, ast.Import | ast.ImportFrom)
    }


def execute(notebook: nbformat.NotebookNode, python: Path, folder: Path, wheel: Path) -> None:
    """Run a chapter with the kernel of `python`, away from the checkout."""
    command = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]

    class Specs(KernelSpecManager):
        def get_kernel_spec(self, kernel_name):
            return KernelSpec(argv=command, display_name="Colab", language="python")

    kernel = AsyncKernelManager(kernel_name="colab", kernel_spec_manager=Specs())
    environment = {
        **{key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        "VITBOOK_SOURCE": f"vitbook[chapters] @ {wheel.as_uri()}",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    client = NotebookClient(
        notebook, km=kernel, timeout=300, resources={"metadata": {"path": str(folder)}}
    )
    client.execute(env=environment, cleanup_kc=True)


def test_the_wheel_is_whole(wheel):
    names = ZipFile(wheel).namelist()
    sources = [
        path.relative_to(ROOT).as_posix()
        for suffix in ("py", "js", "css")
        for path in (ROOT / "vitbook").rglob(f"*.{suffix}")
    ]
    assert set(sources) <= set(names)
    for path in (ROOT / "data" / "checkpoints").iterdir():
        assert f"vitbook/_data/checkpoints/{path.name}" in names
    for kind in ("results", "measurements"):  # a file each in the checkout, one for all in a wheel
        content = lzma.decompress(ZipFile(wheel).read(f"vitbook/_data/{kind}.json.xz"))
        packed = json.loads(content)
        files = (ROOT / "data" / kind).glob("*.json")
        assert packed == {file.name: json.loads(file.read_text()) for file in files}


def test_chapters_find_what_they_import(colab, wheel, tmp_path):
    """All of them after one install cell, which is the same in each (`test_notebooks.py`)."""
    paths = [each.values[0] for each in CHAPTERS]
    imports = sorted(set().union(*map(imports_of, paths)))
    install = next(source for source in code_of(paths[0]) if "VITBOOK_SOURCE" in source)
    cells = [new_code_cell(source) for source in (install, *imports)]
    execute(new_notebook(cells=cells), colab, tmp_path, wheel)


@pytest.mark.parametrize("path", WHOLE)
def test_a_chapter_runs_as_on_colab(path, colab, wheel, tmp_path):
    torch = ask(colab, "torch")
    assert torch[1].startswith(str(tmp_path / "colab-packages"))
    assert "No module named 'vitbook'" in ask(colab, "vitbook")[0]

    folder = tmp_path / "content"
    folder.mkdir()
    execute(nbformat.read(path, as_version=4), colab, folder, wheel)

    assert ask(colab, "torch") == torch, "the install cell replaced Colab's torch"
    assert ask(colab, "vitbook")[1].startswith(str(colab.parents[1]))
