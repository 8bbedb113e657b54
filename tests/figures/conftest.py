"""A browser for single figures, and a sample of each figure."""

from pathlib import Path

import pytest
from browser import FLAGS, chromium
from reading import Opened
from samples import FIGURES, sample


@pytest.fixture(scope="module", params=FIGURES)
def figure(request):
    """Every figure in turn."""
    return sample(request.param)


@pytest.fixture(autouse=True)
def without_kernel(monkeypatch):
    monkeypatch.setenv("VITBOOK_STATIC", "1")


@pytest.fixture(scope="session")
def browser():
    if not chromium():
        pytest.skip("needs Chromium: apt-get install chromium, or set VITBOOK_CHROMIUM")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def show(browser, tmp_path):
    """Open HTML as a plain file; its page ends the test without an error in the console."""
    opened = Opened(browser, tmp_path)
    yield opened
    opened.close()
    assert opened.troubles == []


@pytest.fixture(scope="module")
def opened(request, browser, tmp_path_factory):
    """The sample of a test's file in a page, and what its console said."""
    opened = Opened(browser, tmp_path_factory.mktemp("page"))
    name = Path(request.module.__file__).stem.removeprefix("test_")
    yield opened(sample(name)), opened.troubles
    opened.close()


@pytest.fixture
def page(opened):
    """The page with the sample of a test's file, as it starts; opened once a file."""
    page, troubles = opened
    page.mouse.move(0, 0)
    page.set_viewport_size({"width": 900, "height": 900})
    page.evaluate("document.activeElement.blur()")
    page.click("[data-control=reset]")
    yield page
    assert troubles == []


@pytest.fixture
def touched(show):
    """A figure on a phone whose page scrolls, and a finger that goes from place to place."""

    def open_page(figure, above=0):
        around = f'<div style="height: {above}px"></div>', '<div style="height: 2000px">'
        page = show(around[0], figure, around[1], width=390, has_touch=True)
        touch = page.context.new_cdp_session(page)

        def finger(start, *places):
            moves = [("touchMove", [place]) for place in places]
            for kind, at in [("touchStart", [start]), *moves, ("touchEnd", [])]:
                points = [{"x": x, "y": y} for x, y in at]
                touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
            page.wait_for_timeout(200)

        return page, finger

    return open_page
