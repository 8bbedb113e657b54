"""What a built page asks for before a figure is asked for, in bytes as they are sent."""

import gzip
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from browser import FLAGS, chromium, serve
from built import BUILD, NEEDS_PAGES, PAGES

SEEN = [page for page in PAGES if page.count("/") < 2]
FRONT = ("index.html", "book/intro.html")
FRONT_LIMIT, LIMIT = 400_000, 700_000
SHRINK = {".html", ".css", ".js", ".svg", ".json"}
# Down the page as a reader goes, so that images and formulas come; figures stay unasked.
READ = """async () => {
  for (let y = 0; y < document.body.scrollHeight; y += 400) {
    window.scrollTo({ top: y, behavior: "instant" });
    await new Promise((done) => setTimeout(done, 20));
  }
}"""
UNASKED = """
  const Observer = window.IntersectionObserver;
  window.IntersectionObserver = class extends Observer {
    observe(element) {
      if (!element.matches(".vitbook-figure")) super.observe(element);
    }
  };
"""

pytestmark = NEEDS_PAGES


@pytest.fixture(scope="module")
def visit():
    """Address -> the files that a page of the book asks for until its end."""
    from playwright.sync_api import sync_playwright

    with serve(BUILD) as site, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)

        def files(name: str) -> set[Path]:
            page = browser.new_page(viewport={"width": 390, "height": 844})
            page.add_init_script(UNASKED)
            asked = set()
            page.on("request", lambda request: asked.add(request.url))
            page.goto(f"{site}/{name}", wait_until="networkidle")
            page.evaluate(READ)
            page.wait_for_load_state("networkidle")
            page.close()
            paths = (urlsplit(url).path for url in asked if url.startswith(site))
            return {BUILD / unquote(path).lstrip("/") for path in paths}

        yield files
        browser.close()


@cache
def sent(path: Path) -> int:
    content = path.read_bytes()
    return len(gzip.compress(content)) if path.suffix in SHRINK else len(content)


@pytest.mark.parametrize("name", SEEN)
def test_a_page_asks_for_little(visit, name):
    files = {path for path in visit(name) if path.parent.name != "_figures"}
    limit = FRONT_LIMIT if name in FRONT else LIMIT
    total = sum(map(sent, files))
    heaviest = sorted(files, key=sent)[-4:]
    said = ", ".join(f"{path.name} {sent(path):,}" for path in heaviest)
    assert total <= limit, f"{total:,} bytes, at most {limit:,}; most of it: {said}"


def test_only_pages_with_formulas_ask_for_mathjax(visit):
    def has(name: str) -> bool:
        return any("mathjax" in path.parts for path in visit(name))

    assert has("book/attention.html") and not has("book/intro.html")
