"""Where the tests of the book find it."""

from pathlib import Path

import nbformat
import pytest
from browser import FLAGS, Visitor, chromium, serve
from built import BUILD, CONTENTS, ROOT

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


@pytest.fixture(scope="module")
def visitor():
    """Opens pages of the built book, and notes what goes wrong."""
    from playwright.sync_api import sync_playwright

    with serve(BUILD) as site, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield Visitor(browser, site)
        browser.close()
