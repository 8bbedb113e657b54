import re
from xml.etree import ElementTree

import pytest
import torch

from vitbook import plotting
from vitbook.plotting.page import NARROW, PHONE, is_narrow, narrow, page_svg, svg

IMAGE = torch.randint(0, 256, (3, 8, 8), dtype=torch.uint8)
SPANS = {f"a name of many words, the {n}. of them": (n, n - 1, n + 1) for n in range(3)}
PANEL = {"curve": [(1, 0.5), (10, 0.9, 0.8, 0.95)], "other": [(1, 0.4)]}
POINTS = [0.5] * 7

DRAWN = {
    "lines": lambda: plotting.lines(
        [1, 2, 3], {"a": [1, 2, 3]}, "t", x_label="x", y_label="y", levels={"chance": 2}
    ),
    "trends": lambda: plotting.trends({"one": PANEL, "two": PANEL}, "t", x_label="x", y_label="y"),
    "intervals": lambda: plotting.intervals(SPANS, "t", x_label="x"),
    "leads": lambda: plotting.leads(SPANS, SPANS, "t", labels=("l", "r"), x_label="x"),
    "distances": lambda: plotting.distance_by_layer(
        {"a": torch.rand(3, 2), "b": torch.rand(12, 3)}, 0.5, "t"
    ),
    "likeness": lambda: plotting.likeness(
        {name: torch.rand(4, 4) for name in "abc"}, "t", tile=(2, 2)
    ),
    "images": lambda: plotting.image_grid({str(n): IMAGE for n in range(6)}, "t", columns=6),
    "maps": lambda: plotting.heat_maps({str(n): torch.rand(4, 4) for n in range(6)}, "t"),
    "photo": lambda: plotting.photo_and_maps(IMAGE, {"m": torch.rand(4, 4)}, (1, 1), "t"),
    "block": lambda: plotting.residual_block({"before": POINTS, "after": POINTS}, "t"),
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
    if draw is DRAWN["block"]:  # a drawing has one form
        assert not small
    else:
        assert small[0] < 72 * (PHONE + 0.3) and text.endswith(f"{NARROW[1]}</svg>\n")


def test_outside_of_a_page_a_figure_is_what_it_was(monkeypatch):
    monkeypatch.delenv("VITBOOK_STATIC", raising=False)
    assert not hasattr(DRAWN["lines"](), "_repr_svg_")


def test_text_stays_text_and_no_family_is_that_of_this_machine():
    text = svg(DRAWN["lines"]())
    assert ">chance</text>" in text and "DejaVu" not in text and "system-ui" in text
    assert "<metadata" not in text and text.startswith("<svg")


def test_a_plot_twice_is_the_same_bytes():
    assert svg(DRAWN["trends"]()) == svg(DRAWN["trends"]())


def test_a_map_keeps_its_own_pixels():
    text = svg(plotting.heat_maps({"map": torch.rand(4, 4)}, "t"))
    assert "pixelated" in text and len(text) < 30_000


def test_a_figure_that_is_no_wider_has_one_form():
    with narrow():
        assert is_narrow()
        small = DRAWN["lines"]()
    assert not is_narrow() and len(widths(page_svg(small, small))) == 1


def test_what_fails_in_the_drawing_for_a_phone_leaves_the_next_figure_wide(page):
    with pytest.raises(ValueError), narrow():
        plotting.intervals({}, "t", x_label="x")
    assert not is_narrow()


def test_names_too_long_for_a_phone_go_on_in_the_next_line(page):
    small = DRAWN["intervals"]()._repr_svg_().partition(NARROW[0])[2]
    assert "many words, the 1. of them" not in small and "1. of" in small
