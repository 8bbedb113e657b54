"""A plugin of pytest: what `--nbval` executes, `make book` need not: `-p keep_executed`.

A chapter whose every cell passed goes into the execution cache of the book, where it was executed
as for a page (`VITBOOK_STATIC=1`): without widgets, and with plots in a form for pages.
"""

import os
import time
from pathlib import Path

import pytest
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from nbformat import NotebookNode, from_dict
from nbval.plugin import IPyNbCell, IPyNbFile

ROOT = Path(__file__).resolve().parent.parent
BEGUN, PASSED = pytest.StashKey[float](), pytest.StashKey[int]()


def cache_of_the_book():
    return get_cache(ROOT / "_build" / ".jupyter_cache")


def pytest_configure(config):
    if hasattr(config, "workerinput"):
        return
    from build_book import forget_if_changed  # imports torch, which no worker needs

    forget_if_changed(ROOT)
    cache_of_the_book().list_cache_records()  # makes its tables, which two workers would race for


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    if not isinstance(item, IPyNbCell):
        return (yield)
    stash = item.parent.stash
    stash.setdefault(BEGUN, time.monotonic())
    result = yield
    stash[PASSED] = stash.get(PASSED, 0) + 1
    cells = [cell for cell in item.parent.nb.cells if cell.cell_type == "code"]
    cells[item.cell_num] |= {"execution_count": item.cell_num + 1, "outputs": item.test_outputs}
    if stash[PASSED] == len(cells):
        keep(item.parent, time.monotonic() - stash[BEGUN])
    return result


def keep(chapter: IPyNbFile, seconds: float) -> None:
    """Put a chapter that was executed whole into the cache."""
    if os.environ.get("VITBOOK_STATIC") == "1":
        notebook: NotebookNode = from_dict(chapter.nb)
        data = {"execution_seconds": seconds}
        bundle = CacheBundleIn(notebook, str(chapter.path), data=data)
        cache_of_the_book().cache_notebook_bundle(bundle, overwrite=True)
