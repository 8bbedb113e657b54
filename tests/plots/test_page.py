import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
import torch
from matplotlib.text import Text

from vitbook import plots
from vitbook.plots.page import NARROW, PHONE, is_narrow, narrow, page_svg, svg
from vitbook.plots.style import wrapped

IMAGE = torch.randint(0, 256, (3, 8, 8), dtype=torch.uint8)
SPANS = {f"a name of many words, the {n}. of them": (n, n - 1, n + 1) for n in range(3)}
PANEL = {"curve": [(1, 0.5), (10, 0.9, 0.8, 0.95)], " ": [(1, 0.4)]}

DRAWN = {
    "lines": lambda: plots.lines(
        [1, 2, 3], {"a": [1, 2, 3]}, "t", x_label="x", y_label="y", levels={"chance": 2}
    ),
    "trends": lambda: plots.trends({"one": PANEL, "two": PANEL}, "t", x_label="x", y_label="y"),
    "intervals": lambda: plots.intervals(SPANS, "t", x_label="x"),
    "distances": lambda: plots.distance_by_layer(
        {"a": torch.rand(3, 2), "b": torch.rand(12, 3)}, 0.5, "t"
    ),
    "similarity_maps": lambda: plots.similarity_maps(
        {name: torch.rand(4, 4) for name in "abc"}, "t", tile=(2, 2)
    ),
    "images": lambda: plots.image_grid({str(n): IMAGE for n in range(6)}, "t", columns=6),
    "maps": lambda: plots.heat_maps({str(n): torch.rand(4, 4) for n in range(6)}, "t"),
}


@pytest.fixture
def page(monkeypatch):
    monkeypatch.setenv("VITBOOK_STATIC", "1")


def widths(text):
    return [float(width) for width in re.findall(r'<svg [^>]*?width="([\d.]+)pt"', text)]


@pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN)
def test_a_figure_of_a_page_is_one_svg_that_ends_with_the_one_for_a_phone(draw, page):
    figure = draw()
    text = figure._repr_svg_()
    root = ElementTree.fromstring(text)
    assert root.tag.endswith("svg") and "t" in "".join(root.itertext())
    wide, *small = widths(text)
    assert wide == pytest.approx(72 * figure.get_figwidth(), rel=0.2)
    assert small[0] < 72 * (PHONE + 0.3) and text.endswith(f"{NARROW[1]}</svg>\n")


def test_chapters_that_are_checked_may_draw_for_a_page_too(monkeypatch):
    monkeypatch.setenv("VITBOOK_PLOTS", "page")
    assert DRAWN["lines"]()._repr_svg_().startswith("<svg")


def test_outside_of_a_page_a_figure_is_what_it_was(monkeypatch):
    monkeypatch.delenv("VITBOOK_STATIC", raising=False)
    monkeypatch.delenv("VITBOOK_PLOTS", raising=False)
    assert not hasattr(DRAWN["lines"](), "_repr_svg_")


def test_text_stays_text_and_no_family_is_that_of_this_machine():
    text = svg(DRAWN["lines"]())
    assert ">chance</text>" in text and "DejaVu" not in text and "system-ui" in text
    assert "<metadata" not in text and text.startswith("<svg")


def test_a_plot_twice_is_the_same_bytes():
    assert svg(DRAWN["trends"]()) == svg(DRAWN["trends"]())


def test_a_map_keeps_its_own_pixels():
    text = svg(plots.heat_maps({"map": torch.rand(4, 4)}, "t"))
    assert "pixelated" in text and len(text) < 30_000


def test_a_figure_that_is_no_wider_has_one_form():
    with narrow():
        assert is_narrow()
        small = DRAWN["lines"]()
    assert not is_narrow() and len(widths(page_svg(small, small))) == 1


def test_names_too_long_for_a_phone_go_on_in_the_next_line(page):
    small = DRAWN["intervals"]()._repr_svg_().partition(NARROW[0])[2]
    assert "many words, the 1. of them" not in small and "1. of" in small


LONG = "a name that goes on and on, and has words enough for two lines of a phone and more"


def boxes(figure):
    """Where each word of a figure stands, on itself alone."""
    figure.draw_without_rendering()
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text()]
    return {text: Text.get_window_extent(text) for text in texts}


def overlapping(figure, *words):
    found = [box for text, box in boxes(figure).items() if text.get_text() in words]
    assert len(found) == len(words)
    return any(a.overlaps(b) for k, a in enumerate(found) for b in found[:k])


def test_names_of_places_near_one_another_do_not_meet():
    marks = {"the first mark": 1.9, "the second mark": 2.1}
    with narrow():
        figure = plots.lines([1, 2, 3], {"a": [1, 2, 3]}, "t", x_label="x", y_label="y",
                                mark_x=marks)  # fmt: skip
    assert not overlapping(figure, *marks)
    levels = {"one": 0.5, "two": 0.505}
    figure = plots.trends({"p": PANEL}, "t", x_label="x", y_label="y", levels=levels)
    assert not overlapping(figure, *levels)


@pytest.mark.parametrize("draw", [
    lambda: plots.lines([1, 2], {"a": [1, 2]}, "t", x_label=LONG, y_label=LONG),
    lambda: plots.intervals(SPANS, "t", x_label=LONG),
    lambda: plots.similarity_maps({LONG: torch.rand(4, 4)}, "t", tile=(2, 2)),
])  # fmt: skip
def test_what_is_written_beside_an_axis_stays_on_a_phone(draw):
    with narrow():
        figure = draw()
    written = [box for text, box in boxes(figure).items() if "goes on" in text.get_text()]
    assert written
    for box in written:
        assert box.x0 > -6 and box.x1 < figure.bbox.width + 6
        assert box.y0 > -6 and box.y1 < figure.bbox.height + 6


def test_names_of_three_lines_have_room_for_them():
    names = {
        f"{number}. name of very many words that goes on and on": (1, 0, 2) for number in "123"
    }
    with narrow():
        figure = plots.intervals(names, "t", x_label="x")
    figure.draw_without_rendering()
    places = [label.get_window_extent() for label in figure.axes[0].get_yticklabels()]
    assert all(above.y0 > below.y1 for above, below in pairwise(places))


def test_a_long_legend_leaves_the_curves_their_place():
    heights = []
    for count in (2, 12):
        with narrow():
            figure = plots.lines(
                [1, 2], {f"a curve of this name, {n}": [1, n] for n in range(count)}, "t",
                x_label="x", y_label="y",
            )  # fmt: skip
        figure.draw_without_rendering()
        heights.append(figure.axes[0].get_window_extent().height)
    assert heights[1] == pytest.approx(heights[0], rel=0.15)


def test_a_formula_stays_whole_where_words_are_wrapped():
    with narrow():
        lines = wrapped(r"all of these words and $a + b + c + d + e$ after them", 1).splitlines()
    assert "$a + b + c + d + e$" in lines


@pytest.mark.filterwarnings("ignore:Glyph 7")
def test_a_name_of_a_file_that_no_page_holds_is_drawn():
    text = svg(plots.image_grid({"a\abell": IMAGE}, "t"))
    ElementTree.fromstring(text.encode())
    assert "a\N{REPLACEMENT CHARACTER}bell" in text
