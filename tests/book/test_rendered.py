"""What is done to a page after its templates: icons, scripts, addresses of the root, its head."""

import re
from pathlib import Path

import pytest
import vitbook_head
import vitbook_icons
import vitbook_images
import vitbook_root
import vitbook_scripts
from bs4 import BeautifulSoup
from docutils.core import publish_doctree
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "_build" / "html"
PAGES = sorted([*BUILD.glob("*.html"), *BUILD.glob("book/**/*.html")])
built = pytest.mark.skipif(not PAGES, reason="the book is not built: run `make book`")


def test_an_icon_is_drawn_with_the_classes_that_place_it():
    page = '<i class="theme-switch fa-solid fa-sun  fa-lg" data-mode="light" title="Light"></i>'
    (svg,) = BeautifulSoup(vitbook_icons.draw_icons(page), "html.parser").children
    assert svg.name == "svg" and svg["data-mode"] == "light" and svg.path
    assert {"theme-switch", "fa-lg", "vb-icon"} <= set(svg["class"])
    other = '<span class="fair"></span><i class="x"></i>'
    assert vitbook_icons.draw_icons(other) == other


def test_an_icon_without_a_drawing_is_named():
    with pytest.raises(ValueError, match="fa-dragon has no drawing"):
        vitbook_icons.draw_icons('<i class="fas fa-dragon"></i>')


def test_every_icon_that_is_named_is_there():
    for name in [*vitbook_icons.ICONS.values(), *vitbook_icons.STYLED.values()]:
        assert vitbook_icons.drawing(name).startswith("<svg viewBox=")


def test_a_style_loses_font_awesome_and_nothing_else():
    css = (
        ":root{--fa-x:1;--pst-icon-download:\"\\f019\"}.fa,.fas{a:1}.fa-sun:before{content:'x'}"
        "@font-face{font-family:Font Awesome\\ 6 Free}@keyframes fa-beat{0%{a:1}to{a:2}}"
        "@media (x){.fa-beat,.fa-fade{a:1}}@media (y){.bd{a:1}}.fade{a:1}"
        "a.download:before{content:var(--pst-icon-download);font:var(--fa-font-solid)}"
    )
    left = vitbook_icons.without_font_awesome(css)
    assert "@media (y){.bd{a:1}}.fade{a:1}" in left and "svg" in left and "mask:" in left
    assert not re.search(r"\.fas|fa-beat|fa-sun|Awesome|--fa|f019", left)


HEAD = """<head><link rel="preload" as="script" href="a.js" />
<link href="../_static/styles/theme.css?digest=1" rel="stylesheet" />
<link href="../_static/sphinx-design.min.css?v=1" rel="stylesheet" />
<script src="../_static/scripts/fontawesome.js?digest=1"></script>
<script src="../_static/a.js"></script><script>let toggleHintShow = 'Show';</script>
<script>one()</script><script>one()</script><script src="copybutton.js"></script>
<script>window.MathJax = {}</script><script async="async" src="mathjax.js"></script>
<script>DOCUMENTATION_OPTIONS.pagename = 'a';</script></head>"""


def test_a_page_keeps_the_scripts_that_it_uses_and_they_wait():
    plain = vitbook_scripts.lighten(f"{HEAD}<body><p>a</p></body>")
    assert re.findall(r"<script([^>]*)>", plain) == [
        *(' defer src="../_static/a.js"', "", ' type="module"'),
    ]
    assert 'href="../_static/basic.css"' in plain and "sphinx-design" not in plain
    body = (
        '<body><div class="highlight-x"></div><p class="math">x</p><a class="a sd-b">x</a></body>'
    )
    full = vitbook_scripts.lighten(HEAD + body)
    for name in ('defer src="copybutton.js"', 'async="async" src="mathjax.js"', "sphinx-design"):
        assert name in full
    assert vitbook_scripts.lighten(full) == full


def test_only_a_figure_in_sight_has_its_data_asked_for_at_once():
    figure = '<script class="vb-data" data-key="a" data-src="../_figures/a.js"></script>'
    near = f"<head></head><h2>Contents</h2><article>{figure}<h2>b</h2></article>"
    assert 'fetchpriority="low" href="../_figures/a.js" />' in vitbook_scripts.hasten(near)
    far = f"<head></head><article><h2>b</h2>{figure}</article>"
    assert vitbook_scripts.hasten(far) == far


def test_the_root_is_the_front_page_with_its_own_addresses():
    page = (
        '<html data-content_root="../"><head><meta content="../_static/p.jpg" /></head>'
        '<a href="#x"></a><a href="a.html#x"></a><a href="https://x.org/"></a>'
        '<img src="../_images/a.png"><script data-src="../_figures/a.js"></script>'
    )
    root = BeautifulSoup(vitbook_root.at_root(page, "book/intro.html"), "html.parser")
    assert root.find(rel="canonical")["href"] == "book/intro.html"
    assert [a["href"] for a in root("a")] == ["#x", "book/a.html#x", "https://x.org/"]
    assert root.img["src"] == "_images/a.png" and root.meta["content"] == "_static/p.jpg"
    assert root.script["data-src"] == "_figures/a.js"
    assert root.html["data-content_root"] == "./"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Title\n=====\n\nshort\n\nA page of *four* words.\n\nMore.", "A page of four words."),
        (
            "Title\n=====\n\n.. note:: Not this one, it is a note.\n\nThis is the one.",
            "This is the one.",
        ),
        ("Title\n=====\n\n" + "It is long. " * 40, "It is long. " * 15 + "It is long."),
        ("Title\n=====\n\n" + "long " * 100, "long " * 40 + "…"),
        (
            "Title\n=====\n\n.. meta::\n   :description: Its own.\n\nThis is not the one.",
            "Its own.",
        ),
    ],
)
def test_a_description_is_the_first_paragraph(text, words):
    assert vitbook_head.description(publish_doctree(text)) == words


def test_a_still_is_kept_as_the_smaller_of_two(tmp_path):
    photo, target = tmp_path / "a.png", tmp_path / "images" / "a.webp"
    Image.linear_gradient("L").convert("RGB").save(photo)
    assert vitbook_images.lighter(photo, target) == target
    with Image.open(photo) as before, Image.open(target) as after:
        assert before.tobytes() == after.convert("RGB").tobytes()
    tiny = tmp_path / "b.png"
    tiny.write_bytes(photo.read_bytes()[:60])
    assert vitbook_images.lighter(tiny, target) is None


@built
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(BUILD).as_posix())
def test_a_page_says_what_it_is(page):
    head = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser").head
    said = {meta.get("property") or meta.get("name"): meta.get("content") for meta in head("meta")}
    for key in ("description", "og:title", "og:description", "twitter:card", "twitter:image"):
        assert said[key].strip()
    assert len(said["description"]) > 20
    with Image.open((page.parent / said["og:image"]).resolve()) as picture:
        assert [str(side) for side in picture.size] == [
            said["og:image:width"],
            said["og:image:height"],
        ]
    scripts = [(script.get("src"), script.string) for script in head("script")]
    assert len(set(scripts)) == len(scripts), "a script twice"


@built
def test_the_shared_picture_is_light_and_no_font_of_icons_is_sent():
    assert (BUILD / vitbook_head.PICTURE).stat().st_size <= 200_000
    assert not [*BUILD.rglob("fa-*.woff2"), *BUILD.rglob("fontawesome.js")]
