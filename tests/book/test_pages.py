"""Every built page, as a reader opens it: nothing leaves it, nothing fails, all figures live."""

import gzip
import os
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from built import BUILD, CONTENT, NEEDS_PAGES, PAGES, soup

WITH_FIGURES = [page for page in CONTENT if "vitbook-figure" in (BUILD / page).read_text("utf-8")]
# Gzipped: what a page and the data of its figures weigh, what a phone asks for as it is read down,
# and that of the pages which every reader opens first.
PAGE_LIMIT, ASKED_LIMIT, FRONT_LIMIT = 700_000, 700_000, 400_000
FRONT = ("index.html", "book/intro.html")
# Of the pages that one template makes, some are looked at for all.
OF_ONE_FORM = ("book/api/", "book/evidence/")
SOME = {
    f"book/{name}.html"
    for name in ("api/command", "api/export", "api/measure", "evidence/scale", "evidence/pitfalls")
}
# By night only the colours are other ones, and all that has colours stands on these pages.
BY_NIGHT = {
    f"book/{name}.html"
    for name in (
        "intro",
        "attention",
        "models",
        "photograph",
        "pitfalls",
        "references",
        "api/export",
    )
}
# A chapter has thousands of coloured words of code: one of each colour is looked at.
ONE_OF_EACH = """() => {
  const seen = new Set();
  for (const word of document.querySelectorAll(".highlight pre span")) {
    if (seen.has(word.className)) word.replaceWith(...word.childNodes);
    seen.add(word.className);
  }
}"""
# Names of columns that stand on a phone where a row has nothing under them.
BARE = """[...document.querySelectorAll('.vb-stack tbody tr > :not(:first-child)')]
  .filter((cell) => !cell.textContent.trim() && !cell.querySelector('img, svg')
    && getComputedStyle(cell).display !== 'none').map((cell) => cell.dataset.of)"""
SHRINK = {".html", ".css", ".js", ".svg", ".json"}

pytestmark = NEEDS_PAGES


@cache
def sent(path: Path) -> int:
    content = path.read_bytes()
    return len(gzip.compress(content)) if path.suffix in SHRINK else len(content)


def keep_screenshot(page, name: str, scheme: str, width: int) -> None:
    if folder := os.environ.get("VITBOOK_SCREENSHOTS"):
        file = f"{name.removesuffix('.html').replace('/', '-')}-{scheme}-{width}.png"
        page.screenshot(path=Path(folder) / file, full_page=True)


def check_quiet_and_fitting(page, name: str, scheme: str, width: int) -> None:
    keep_screenshot(page, name, scheme, width)
    assert page.troubles == []
    assert page.locator(".vb-error").all_text_contents() == []
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if width == 390:
        assert page.evaluate(BARE) == []


def become(page, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.wait_for_function(f"document.documentElement.dataset.theme === '{scheme}'")


def check_accessible(page, **options) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page.evaluate(ONE_OF_EACH)
    found = Axe().run(page, options={"resultTypes": ["violations"], **options}).response
    failures = [
        f"{rule['id']} ({rule['help']}): {part['html'][:200]}"
        for rule in found["violations"]
        if rule["impact"] in ("serious", "critical")
        for part in rule["nodes"]
    ]
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_quiet_and_accessible_on_a_phone_and_on_a_desk(visitor, name):
    """Opened once, on a phone by night, where it asks for little; then wide and by day."""
    with visitor.page(name, scheme="dark", width=390) as page:
        check_quiet_and_fitting(page, name, "dark", 390)
        paths = {BUILD / unquote(urlsplit(url).path).lstrip("/") for url in page.asked}
        become(page, "light")
        check_quiet_and_fitting(page, name, "light", 390)
        page.set_viewport_size({"width": 1280, "height": 900})
        check_quiet_and_fitting(page, name, "light", 1280)
        if name in SOME or not name.startswith(OF_ONE_FORM):
            check_accessible(page)
        if name in BY_NIGHT:
            become(page, "dark")
            check_quiet_and_fitting(page, name, "dark", 1280)
            check_accessible(page, runOnly=["color-contrast"])
    files = sorted((path for path in paths if path.parent.name != "_figures"), key=sent)
    said = ", ".join(f"{path.name} {sent(path):,}" for path in files[-4:])
    limit, total = FRONT_LIMIT if name in FRONT else ASKED_LIMIT, sum(map(sent, files))
    assert total <= limit, f"{total:,} bytes, at most {limit:,}; most of it: {said}"


def test_only_pages_with_formulas_ask_for_mathjax():
    def has(name: str) -> bool:
        return bool(soup(name).select("script[src*=mathjax i]"))

    assert has("book/attention.html") and not has("book/intro.html")


@pytest.mark.parametrize("name", CONTENT)
def test_every_image_is_told_in_words(name):
    # A thumbnail stands beside the name of its chapter, and says nothing more; nor do the parts
    # of a figure's start, which is told as one.
    images = soup(name).select("main img:not(.vb-chapters img, [role=img] img)")
    silent = [str(image)[:120] for image in images if not image.get("alt")]
    assert not silent, "a figure without alternative text: give its cell mystnb: image: alt"
    paths = [str(i["alt"]) for i in soup(name).select("main img") if "_images/" in i["alt"]]
    assert not paths, "an alternative text that is a file name"


@cache
def ids(name: str) -> set[str]:
    return {element["id"] for element in soup(name).select("[id]")}


@pytest.mark.parametrize("name", CONTENT)
def test_links_within_the_book_lead_somewhere(name):
    missing = []
    for link in soup(name).select("main a[href], nav a[href]"):
        address = urlsplit(link["href"])
        if address.scheme or address.netloc:
            continue
        here = BUILD / name
        target = (here.parent / unquote(address.path)).resolve() if address.path else here
        found = target.is_file()
        if found and address.fragment and target.suffix == ".html":
            found = unquote(address.fragment) in ids(target.relative_to(BUILD).as_posix())
        if not found:
            missing.append(link["href"])
    assert not missing


@pytest.mark.parametrize("name", CONTENT)
def test_a_page_is_light(name):
    page = BUILD / name
    text = page.read_text(encoding="utf-8")
    # What a figure asks for only when it is touched has its own limit, by photograph.
    asked = re.sub(r'<script [^>]*class="vb-piece"[^>]*>', "", text)
    data = {BUILD / "_figures" / key for key in re.findall(r"_figures/([\w-]+\.js)", asked)}
    # A drawing for dark pages is not shown on a light one, and what is not shown is not fetched.
    images = soup(name).select("main img:not([src^='data:'], .vb-dark img)")
    images = {(page.parent / image["src"]).resolve() for image in images}
    total = sent(page) + sum(map(sent, data | images))
    assert total <= PAGE_LIMIT, f"{total:,} bytes gzipped, at most {PAGE_LIMIT:,}"
    assert "application/vnd.jupyter.widget" not in text, "a widget is dead in a built page"


@pytest.mark.parametrize("name", WITH_FIGURES[:3])
def test_a_figure_lives_on_a_page_opened_from_a_file(visitor, name):
    with visitor.page((BUILD / name).as_uri()) as page:
        assert page.locator(".vb-error").count() == 0
        ready = page.locator(".vitbook-figure[data-ready=true]").count()
        assert ready == page.locator(".vitbook-figure").count()


@pytest.mark.parametrize("name", WITH_FIGURES[:3])
def test_a_page_reads_without_scripts(visitor, name):
    with visitor.page(name, scripts=False) as page:
        for still in page.locator(".vitbook-figure .vb-still").all():
            assert still.is_visible() and still.bounding_box()["height"] > 40


def test_search_finds_a_chapter(visitor):
    with visitor.page("search.html?q=attention") as page:
        page.wait_for_selector("#search-results li a")
        assert page.troubles == []
