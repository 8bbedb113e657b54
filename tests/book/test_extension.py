"""The data of a live figure leaves the page when it is large; references have names."""

import json

import vitbook_pages
import vitbook_references
from pybtex.database import parse_string
from pybtex.plugin import find_plugin
from vitbook_rendered import Page


def figure(key: str, data) -> str:
    block = f'<script type="application/json" class="vb-data" data-key="{key}">'
    return f"<p>before</p>{block}{json.dumps(data)}</script><p>after</p>"


def test_large_data_moves_to_a_script_of_its_own(tmp_path):
    data = {"pixels": list(range(20_000)), "name": "</b> é"}
    small, large = figure("small", [1, 2]), figure("1a2b", data)
    page = vitbook_pages.move_data(small + large, tmp_path / "_figures", "../_figures")

    assert small in page and len(page) < 1000
    assert 'data-key="1a2b" data-src="../_figures/1a2b.js"></script><p>after</p>' in page
    (script,) = tmp_path.glob("_figures/*.js")
    head, _, tail = script.read_text(encoding="utf-8").partition(" = ")
    assert head == '(window.vitbookData ??= {})["1a2b"]'
    assert json.loads(tail.rstrip(";\n")) == data
    assert vitbook_pages.move_data(page, tmp_path / "_figures", "../_figures") == page


def test_a_piece_moves_to_a_script_of_its_own_and_stays_a_piece(tmp_path):
    piece = figure("5c6d", "x" * 40_000).replace("vb-data", "vb-piece")
    page = vitbook_pages.move_data(figure("data", [1]) + piece, tmp_path, "_figures")
    assert 'class="vb-piece" data-key="5c6d" data-src="_figures/5c6d.js"></script>' in page
    assert 'class="vb-data" data-key="data">[1]</script>' in page


def test_data_that_no_page_asks_for_is_dropped(tmp_path):
    (tmp_path / "_figures").mkdir()
    for key in ("used", "stale"):
        (tmp_path / "_figures" / f"{key}.js").write_text("")
    (tmp_path / "page.html").write_text('<script data-src="_figures/used.js"></script>')
    vitbook_pages.drop_unused_data(tmp_path)
    assert [path.name for path in tmp_path.glob("_figures/*")] == ["used.js"]


def test_references_are_labelled_as_they_are_cited_and_sorted_by_name():
    data = parse_string(
        """@article{b, author = {Ada B{\\"o}hle and Bo Chi and Cy Day},
            title = {T}, journal = {J}, year = {2021}}
        @article{a, author = {Ann Abel and Bob Cox},
            title = {T}, journal = {J}, year = {2020b}}""",
        "bibtex",
    )
    vitbook_references.setup(None)
    style = find_plugin("pybtex.style.formatting", vitbook_references.NAME)()
    labels = [entry.label for entry in style.format_bibliography(data)]
    assert labels == ["Abel and Cox, 2020b", "Böhle et al., 2021"]


def test_a_page_is_light_until_a_script_says_otherwise():
    page = Page("vit", '<html lang="en" data-theme="auto"><body data-default-mode="auto">')
    vitbook_pages.on_rendered(None, page)
    assert page.html == '<html lang="en" data-theme="light"><body data-default-mode="auto">'
