"""What every figure has in common."""

import hashlib
import json
import re
from importlib.resources import files

import numpy as np
import pytest

from vitbook.figures import Figure, attention_maps
from vitbook.figures.parts.figure import _needs, _source, _style

DATA = re.compile(
    r'<script type="application/json" class="vb-data" data-key="(\w+)">(.*?)</script>', re.DOTALL
)


def state(page, nth=0):
    return page.locator(".vitbook-figure").nth(nth).get_attribute("data-state")


def shot(page):
    return page.locator(".vitbook-figure").first.screenshot()


def test_every_figure_is_tried(figures):
    """But the photograph's reader, whose model has tests of its own."""
    folders = {file.parent.name for file in files("vitbook.figures").glob("*/figure.js")}
    assert {figure.name for figure in figures} == folders - {"photo_reader"}


def test_the_data_stands_in_the_page_and_names_itself(figure):
    key, text = DATA.search(figure._repr_html_()).groups()
    assert key == figure.key == hashlib.sha1(text.encode()).hexdigest()[:16]
    assert json.loads(text) == json.loads(json.dumps(figure.data))


def test_two_renders_have_two_ids_and_one_key(figure):
    first, second = figure._repr_html_(), figure._repr_html_()
    ids = [
        re.search(r'<div class="vitbook-figure" id="([\w-]+)"', each)[1] for each in (first, second)
    ]
    assert ids[0] != ids[1]
    assert first.replace(ids[0], ids[1]) == second


def test_text_cannot_close_a_script_or_become_markup():
    evil = '</script><b>"&<!--'
    html = Figure("soft_lookup", {"x": evil}, evil, evil)._repr_html_()
    assert html.count("</script>") == 2 and "<b>" not in html
    assert json.loads(DATA.search(html)[2]) == {"x": evil}


def test_a_figure_needs_no_other_file(figure):
    html = figure._repr_html_()
    assert not re.search(
        r"^import |(?:src|href)=\"(?!#|data:image/(?:png|jpeg))", html, re.MULTILINE
    )


def test_in_plain_text_it_is_its_title(lookup):
    assert repr(lookup) == "<Figure soft_lookup: Attention answers with a mixture of what it holds>"


def test_not_a_number_never_reaches_the_page():
    with pytest.raises(ValueError):
        Figure("soft_lookup", {"x": float("nan")}, "", "").json  # noqa: B018


def test_it_comes_alive(show, figure):
    page = show(figure)
    assert page.locator(".vb-live").is_visible()
    assert page.locator("[aria-live]").count() == 1


def test_every_control_changes_state_and_drawing(show, figure):
    page = show(figure)
    for control in page.locator("[data-control]:not([data-control=reset])").all():
        own = control.evaluate("e => e.matches('button, input, select, [tabindex]')")
        target = control if own else control.locator("[tabindex='0']").first
        target.focus()
        name, before = control.get_attribute("data-control"), (state(page), shot(page))
        for key in ("ArrowDown", "ArrowRight", "Enter", "ArrowUp", "ArrowLeft"):
            page.keyboard.press(key)
            page.wait_for_timeout(50)
            if state(page) != before[0]:
                break
        page.wait_for_timeout(120)
        assert state(page) != before[0], f"{name} does not change the state"
        assert shot(page) != before[1], f"{name} does not change the drawing"


def test_reset_brings_back_the_start(show, figure):
    page = show(figure)
    start = state(page)
    control = page.locator("[data-control]").first
    inner = control.locator("button").last
    target = inner if inner.count() else control
    target.click()
    target.press("ArrowLeft")
    assert state(page) != start
    at_start = page.locator(".vb-at-start")
    assert not at_start.count() or at_start.is_hidden()
    page.click("[data-control=reset]")
    assert state(page) == start
    assert not at_start.count() or at_start.is_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_fits_a_phone(show, figure, theme):
    page = show(figure, width=390, theme=theme)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    ink, paper = page.evaluate(
        "(f => [getComputedStyle(f).color, getComputedStyle(f).backgroundColor])"
        "(document.querySelector('.vitbook-figure'))"
    )
    bright = [sum(map(int, re.findall(r"\d+", color)[:3])) for color in (ink, paper)]
    assert (bright[0] > bright[1]) == (theme == "dark")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_is_accessible(show, figure, theme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = show("<main><h1>A page</h1>", figure, "</main>", theme=theme)
    found = axe.run(page).response["violations"]
    assert [(each["id"], each["nodes"][0]["html"]) for each in found] == []


@pytest.mark.parametrize("same_id", [False, True], ids=["rendered twice", "output copied"])
def test_two_on_a_page_do_not_disturb_each_other(show, lookup, same_id):
    html = lookup._repr_html_()
    page = show(html, html if same_id else lookup)
    page.locator("[data-control=sharpness]").nth(1).fill("4")
    assert "sharpness=1.0" in state(page, 0) and "sharpness=4.0" in state(page, 1)


def moved(figure, src):
    return DATA.sub(
        f'<script type="application/json" class="vb-data" data-key="{figure.key}" '
        f'data-src="{src}"></script>',
        figure._repr_html_(),
    )


def test_its_data_is_fetched_when_it_comes_near(show, lookup, tmp_path):
    script = f"(window.vitbookData ??= {{}})['{lookup.key}'] = {lookup.json};"
    (tmp_path / "data.js").write_text(script, encoding="utf-8")
    page = show('<div style="height: 4000px"></div>', moved(lookup, "data.js"), wait=False)
    page.wait_for_timeout(200)
    assert page.evaluate("window.vitbookData") is None
    page.evaluate("window.scrollTo(0, 3000)")
    page.wait_for_selector(".vitbook-figure[data-ready=true]")
    assert state(page) == "query=1.00,0.00 sharpness=1.0"


def test_data_that_does_not_fit_says_so(show, lookup):
    broken = Figure(lookup.name, {"keys": []}, "title", "caption")
    page = show(broken, wait=False)
    assert "could not start" in page.locator(".vb-error").inner_text()
    assert page.locator(".vb-live").count() == 0


def test_an_empty_block_without_an_address_says_so(show, lookup):
    page = show(moved(lookup, ""), wait=False)
    assert "came without data" in page.locator(".vb-error").inner_text()


def test_photographs_and_models_without_prefix_are_drawn(show, images, weights):
    photo = np.random.default_rng(0).integers(0, 256, (1, 3, 64, 96), dtype=np.uint8)
    rows = weights["trained"][:, :1, :, :6, :6]
    figure = attention_maps(photo, rows, num_prefix_tokens=0, grid_size=(2, 3))
    page = show(figure)
    assert page.locator("[data-control=prefix]").count() == 0
    assert "96 × 64 px" in page.locator(".vb-live").inner_text()
    assert state(page) == "image=0 query=4 layer=1 head=0"


def test_the_style_sheet_closes_what_it_opens(figure):
    """A block left open would swallow the rules of every figure after it."""
    depth = 0
    for line in _style(figure.name).splitlines():
        if line.startswith("@") or line.startswith(".vitbook-figure"):
            assert depth == 0, line
        depth += line.count("{") - line.count("}")
    assert depth == 0


def test_no_two_modules_of_a_figure_have_one_name(figure):
    """They run as one script, in which a name may be declared once."""
    sources = [_source(name) for name in dict.fromkeys(_needs(f"{figure.name}/figure.js"))]
    declared = [
        name
        for source in sources
        for name in re.findall(r"^(?:export )?(?:function|class|const|let) (\w+)", source, re.M)
    ]
    assert len(declared) > 5
    assert sorted(declared) == sorted(set(declared))
