"""A plot becomes four files: light and dark, wide and for a phone."""

import re

import vitbook_plots

from vitbook.plots.page import NARROW

WIDE = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="400.0pt" height="200pt" viewBox="0 0 400 200">'
    '<path style="stroke: #0072b2"/><text style="fill: #262626">a</text><text>b</text></svg>'
)
SMALL = WIDE.replace("400.0pt", "200.5pt")
BOTH = WIDE.replace("</svg>", f"{NARROW[0]}{SMALL}{NARROW[1]}</svg>")


def test_both_sizes_come_apart_and_one_is_both():
    assert vitbook_plots.halves(BOTH) == (WIDE, SMALL)
    assert vitbook_plots.halves(WIDE) == (WIDE, WIDE)


def test_dark_paper_has_other_inks_and_the_same_drawing():
    dark = vitbook_plots.darkened(WIDE)
    assert "#262626" not in dark and "#0072b2" not in dark and "#4aa5e0" in dark
    assert re.match(r'<svg [^>]*fill="#ced6dd">', dark)  # of text without a colour of its own
    plain = [re.sub(r'#\w{6}| fill="[^"]*"', "", text) for text in (WIDE, dark)]
    assert plain[0] == plain[1]


def test_a_page_shows_one_of_four_and_loads_it_when_it_comes_near(tmp_path):
    shown = {
        scheme: vitbook_plots.picture(
            BOTH, tmp_path, "../_images/", 'alt="A &quot;b&quot;" ', scheme
        )
        for scheme in ("light", "dark")
    }
    files = {path.name for path in tmp_path.iterdir()}
    assert len(files) == 4
    named = {name for html in shown.values() for name in re.findall(r"_images/(\w+\.svg)", html)}
    assert named == files
    for scheme, html in shown.items():
        assert f'class="vb-{scheme} vb-plot"' in html and 'alt="A &quot;b&quot;"' in html
        assert 'width="533" height="267" loading="lazy"' in html and 'width="267"' in html


def test_a_plot_of_one_size_scrolls_on_a_phone(tmp_path):
    html = vitbook_plots.picture(WIDE, tmp_path, "", "", "light")
    assert "<source" not in html and 'vb-wide" style="--vb-width: 533px"' in html
    assert len(list(tmp_path.iterdir())) == 1


def test_the_same_plot_twice_is_one_file(tmp_path):
    for _ in range(2):
        vitbook_plots.picture(WIDE, tmp_path, "", "", "light")
    assert len(list(tmp_path.iterdir())) == 1
