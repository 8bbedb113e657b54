"""Every figure in a frame of its own, as on Colab: another origin, and nobody's styles."""

from html import escape

import pytest
from reading import FIGURE, Opened, turn

WIDTH = 640
TALL, LOW = 4000, 100
FRAME = (
    f'<iframe sandbox="allow-scripts" width="{WIDTH}" height="{TALL}" style="border: 0" srcdoc="'
)
HEIGHT = "document.body.getBoundingClientRect().height"
READY = f"document.querySelector('{FIGURE}').dataset.ready"


@pytest.fixture(scope="module")
def framed(figure, browser, tmp_path_factory):
    """The frame, and what its page said and asked for."""
    opened = Opened(browser, tmp_path_factory.mktemp("page"))
    inner = f'<!doctype html><html lang="en"><title>output</title>{figure._repr_html_()}'
    page = opened(f'{FRAME}{escape(inner)}">', wait=False, reduced_motion="reduce")
    frame = page.frames[1]
    frame.wait_for_function(READY)
    yield frame, opened
    opened.close()


@pytest.fixture
def frame(framed):
    frame, opened = framed
    yield frame
    assert opened.troubles == []
    asked = [url for url in opened.asked if not url.startswith(("data:", "blob:", "about:"))]
    assert asked == [frame.page.url]


def test_its_controls_answer(frame):
    controls = frame.locator("[data-control]:not([data-control=reset])").all()
    first = next(each for each in controls if each.is_visible())
    assert turn(frame, first)
    frame.locator("[data-control=reset]").click()


def test_it_fits_and_its_height_does_not_follow_the_frames(frame):
    assert frame.evaluate("document.documentElement.scrollWidth") <= WIDTH
    heights = set()
    for height in (LOW, TALL):
        frame.page.evaluate(f"document.querySelector('iframe').height = {height}")
        frame.page.wait_for_timeout(100)
        heights.add(round(frame.evaluate(HEIGHT)))
    assert len(heights) == 1
    assert 0 < heights.pop() < TALL


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_its_words_stand_out(frame, theme):
    """Colab names its theme on the frame's html, and lays the figure on a ground of its own."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    ground = {"light": "white", "dark": "#383838"}[theme]
    frame.evaluate(f"document.documentElement.setAttribute('theme', '{theme}')")
    frame.evaluate(f"document.body.style.background = '{ground}'")
    found = axe.run(frame, options={"runOnly": ["color-contrast"]}).response["violations"]
    assert [node["html"] for each in found for node in each["nodes"]] == []
