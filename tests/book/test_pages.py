"""Every built page, as a reader opens it: nothing leaves it, nothing fails, all figures live."""

import gzip
import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from built import BUILD, CONTENT, NEEDS_PAGES, PAGES, soup

WITH_FIGURES = [page for page in CONTENT if "vitbook-figure" in (BUILD / page).read_text("utf-8")]
PAGE_LIMIT = 700_000  # the data of its figures, and images that wait for their turn, included
SERIOUS = ("serious", "critical")
# By night only the colours are other ones.
AUDITED = {
    "light": {"resultTypes": ["violations"]},
    "dark": {"resultTypes": ["violations"], "runOnly": ["color-contrast"]},
}

pytestmark = NEEDS_PAGES


def size(path: Path) -> int:
    return len(gzip.compress(path.read_bytes()))


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


# The longest pages of the reference are entries of one form, which the others have too.
LONG = {f"book/api/{room}.html" for room in ("analysis", "layers", "models", "training")}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", [page for page in PAGES if page not in LONG])
def test_a_page_is_quiet_and_accessible(visitor, name, scheme):
    from axe_playwright_python.sync_playwright import Axe

    with visitor.page(name, scheme=scheme) as page:
        check_quiet_and_fitting(page, name, scheme, 1280)
        found = Axe().run(page, options=AUDITED[scheme]).response["violations"]
    failures = [
        f"{rule['id']} ({rule['help']}): {part['html'][:200]}"
        for rule in found
        if rule["impact"] in SERIOUS
        for part in rule["nodes"]
    ]
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_a_phone_by_night_and_as_the_day_begins(visitor, name):
    with visitor.page(name, scheme="dark", width=390) as page:
        check_quiet_and_fitting(page, name, "dark", 390)
        page.emulate_media(color_scheme="light", reduced_motion="reduce")
        page.wait_for_function("document.documentElement.dataset.theme === 'light'")
        check_quiet_and_fitting(page, name, "light", 390)


@pytest.mark.parametrize("name", CONTENT)
def test_every_image_is_told_in_words(name):
    # A thumbnail stands beside the name of its chapter, and says nothing more; nor do the parts
    # of a figure's start, which is told as one.
    images = soup(name).select("main img:not(.vb-chapters img, [role=img] img)")
    silent = [str(image)[:120] for image in images if not image.get("alt")]
    assert not silent, "a figure without alternative text: give its cell mystnb: image: alt"
    paths = [str(i["alt"]) for i in soup(name).select("main img") if "_images/" in i["alt"]]
    assert not paths, "an alternative text that is a file name"


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
            found = soup(target.relative_to(BUILD).as_posix()).find(id=unquote(address.fragment))
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
    images = soup(name).select("main img:not([src^='data:'])")
    images = {(page.parent / image["src"]).resolve() for image in images}
    total = size(page) + sum(map(size, data | images))
    assert total <= PAGE_LIMIT, f"{total:,} bytes gzipped, at most {PAGE_LIMIT:,}"
    assert "application/vnd.jupyter.widget" not in text, "a widget is dead in a built page"


def use(figure, control) -> list[str]:
    """The states that a control's figure goes through as keys and the mouse are tried on it."""
    page, states = figure.page, [figure.get_attribute("data-state")]
    inner = "button, input, select, [tabindex='0']"
    target = control if control.evaluate(f"e => e.matches(`{inner}`)") else control.locator(inner)
    target = target.and_(page.locator(":not([tabindex='-1'])")).first
    for act in ("ArrowRight", "ArrowDown", "ArrowLeft", "Enter", "Space", "click"):
        target.click() if act == "click" else target.press(act)
        page.wait_for_timeout(60)
        states.append(figure.get_attribute("data-state"))
    return states


@pytest.mark.parametrize("name", WITH_FIGURES)
def test_every_control_of_a_live_figure_answers(visitor, name):
    with visitor.page(name) as page:
        for figure in page.locator(".vitbook-figure").all():
            assert figure.get_attribute("data-ready") == "true"
            controls = figure.locator("[data-control]").all()
            assert controls, "a live figure without a control"
            seen = {figure.screenshot()}
            controls.sort(key=lambda each: each.get_attribute("data-control") == "reset")
            for control in controls:  # reset when the others have changed something
                if not control.is_visible():  # of another mode, in which other pages start
                    continue
                label = control.get_attribute("data-control")
                states = use(figure, control)
                assert all(states), "a figure tells its state in data-state"
                assert len(set(states)) > 1, f"{label} changes nothing: {states}"
                page.mouse.move(0, 0)
                seen.add(figure.screenshot())
            assert len(seen) > 1, "the state changes, the image does not"
        assert page.troubles == []


@pytest.mark.parametrize("name", WITH_FIGURES)
def test_a_figure_lives_on_a_page_opened_from_a_file(visitor, name):
    with visitor.page((BUILD / name).as_uri()) as page:
        assert page.locator(".vb-error").count() == 0
        ready = page.locator(".vitbook-figure[data-ready=true]").count()
        assert ready == page.locator(".vitbook-figure").count()


@pytest.mark.parametrize("name", WITH_FIGURES)
def test_a_page_reads_without_scripts(visitor, name):
    with visitor.page(name, scripts=False) as page:
        for still in page.locator(".vitbook-figure .vb-still").all():
            assert still.is_visible() and still.bounding_box()["height"] > 40


def test_search_finds_a_chapter(visitor):
    with visitor.page("search.html?q=attention") as page:
        page.wait_for_selector("#search-results li a")
        assert page.troubles == []
