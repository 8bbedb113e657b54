"""The built book, and what a test of its pages needs."""

from functools import cache
from pathlib import Path

import pytest
import yaml
from browser import chromium
from bs4 import BeautifulSoup

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "_build" / "html"
CONTENTS = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))["parts"]
PAGES = sorted(
    page.relative_to(BUILD).as_posix()
    for page in BUILD.rglob("*.html")
    if page.relative_to(BUILD).parts[0] not in ("_static", "reports")
)
CONTENT = [page for page in PAGES if page.startswith("book/")]
NEEDS_PAGES = [
    pytest.mark.skipif(not PAGES, reason="the book is not built: run `make book`"),
    pytest.mark.skipif(not chromium(), reason="Chromium is not installed"),
]


@cache  # a page is linked from many
def soup(page: str) -> BeautifulSoup:
    return BeautifulSoup((BUILD / page).read_text(encoding="utf-8"), "html.parser")
