"""Where the tests of the book find it."""

from pathlib import Path

import nbformat
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CONTENTS = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))["parts"]
# The appendix may hold notebooks too: tables to look things up in, which do not teach.
APPENDIX = {
    page["file"] for part in CONTENTS if part["caption"] == "Appendix" for page in part["chapters"]
}
NOTEBOOKS = sorted((ROOT / "book").glob("*.ipynb"))
CHAPTERS = [
    path for path in NOTEBOOKS if path.relative_to(ROOT).with_suffix("").as_posix() not in APPENDIX
]


def read(path: Path) -> nbformat.NotebookNode:
    notebook = nbformat.read(path, as_version=4)
    notebook.path = path
    return notebook


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request) -> nbformat.NotebookNode:
    """A chapter, or a page of the appendix that is computed."""
    return read(request.param)


@pytest.fixture(params=CHAPTERS, ids=lambda path: path.stem)
def chapter(request) -> nbformat.NotebookNode:
    return read(request.param)
