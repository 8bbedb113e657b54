"""A figure as one piece of HTML: its data, its script, its style, two on a page, missing data."""

import hashlib
import json
import re
from importlib.resources import files

import pytest
from reading import parts, put, state
from samples import FIGURES, sample

from vitbook.figures import Figure
from vitbook.figures.parts.figure import _needs, _source, _style

DATA = re.compile(
    r'<script type="application/json" class="vb-data" data-key="(\w+)">(.*?)</script>', re.DOTALL
)


def test_the_data_names_itself_and_two_renders_differ_in_their_id_alone(figure):
    first, second = figure._repr_html_(), figure._repr_html_()
    key, text = DATA.search(first).groups()
    assert key == figure.key == hashlib.sha1(text.encode()).hexdigest()[:16]
    assert json.loads(text) == json.loads(json.dumps(figure.data))
    ids = [
        re.search(r'<div class="vitbook-figure" id="([\w-]+)"', each)[1] for each in (first, second)
    ]
    assert ids[0] != ids[1] and first.replace(ids[0], ids[1]) == second


def test_a_figure_needs_no_other_file(figure):
    html = figure._repr_html_()
    assert not re.search(
        r"^import |(?:src|href)=\"(?!#|data:image/(?:png|jpeg))", html, re.MULTILINE
    )


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


def test_every_module_is_of_a_figure():
    used = {module for name in [*FIGURES, "photo_reader"] for module in _needs(f"{name}/figure.js")}
    used.remove("../trainer/layout.js")
    home = files("vitbook.figures")
    assert used == {file.relative_to(home).as_posix() for file in home.rglob("*.js")}


def test_text_cannot_close_a_script_or_become_markup():
    evil = '</script><b>"&<!--'
    figure = Figure("soft_lookup", {"x": evil}, evil, evil)
    html = figure._repr_html_()
    assert html.count("</script>") == 2 and "<b>" not in html
    assert json.loads(DATA.search(html)[2]) == {"x": evil}
    assert repr(figure) == f"<Figure soft_lookup: {evil}>"


def test_not_a_number_never_reaches_the_page():
    with pytest.raises(ValueError):
        Figure("soft_lookup", {"x": float("nan")}, "", "").json  # noqa: B018


@pytest.fixture(scope="module")
def lookup():
    return sample("soft_lookup")


@pytest.mark.parametrize("same_id", [False, True], ids=["rendered twice", "output copied"])
def test_two_on_a_page_do_not_disturb_each_other(show, lookup, same_id):
    html = lookup._repr_html_()
    page = show(html, html if same_id else lookup)
    page.locator("[data-control=sharpness]").nth(1).fill("4")
    assert "sharpness=1.0" in state(page, 0) and "sharpness=4.0" in state(page, 1)


def test_two_on_a_page_have_links_of_their_own(show):
    gradients, rounding = sample("layer_gradients"), sample("rounding_grid")
    page = show(gradients, rounding, gradients)
    links = [link.get_attribute("href").split("?")[0] for link in page.locator(".vb-link").all()]
    assert links == ["#gradients", "#rounding", "#gradients2"]
    page.evaluate("location.hash = '#gradients2?depth=3'")
    page.wait_for_function(
        "document.querySelectorAll('.vitbook-figure')[2].dataset.state.startsWith('depth=3')"
    )
    assert parts(page)["depth"] == "12"


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
    put(page, sharpness=2)


def test_data_that_does_not_fit_or_is_not_there_says_so(show, lookup):
    page = show(Figure(lookup.name, {"keys": []}, "title", "caption"), wait=False)
    assert "could not start" in page.locator(".vb-error").inner_text()
    assert page.locator(".vb-live").count() == 0
    page = show(moved(lookup, ""), wait=False)
    assert "came without data" in page.locator(".vb-error").inner_text()
