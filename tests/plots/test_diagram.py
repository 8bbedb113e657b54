"""Mechanisms are drawn as boxes and arrows, and told to those who do not see them."""

import re

import pytest
import torch

from vitbook.plots import Diagram

PARTS = ["tokens", "→ 4 × 8", [["→ kept"], ["mean\nof <all>", "→ 8", "gate"]], "multiply"]


def test_a_diagram_holds_each_box_and_an_arrow_between_any_two():
    html = Diagram(PARTS, "Gate & keep")._repr_html_()
    assert re.findall(r'class="vb-box">([^<]*)', html) == ["tokens", "mean", "gate", "multiply"]
    assert re.findall(r'class="vb-to">([^<]*)', html) == ["4 × 8", "kept", "8", ""]
    assert "<small>of &lt;all&gt;</small>" in html and "<p>Gate &amp; keep</p>" in html
    assert html.count("<div") == html.count("</div>")
    told = re.search(r'aria-label="([^"]*)"', html)[1]
    assert (
        told
        == "Gate &amp; keep: tokens → 4 × 8 → (kept | mean of &lt;all&gt; → 8 → gate) → multiply"
    )


def test_an_image_stands_for_itself():
    for channels in (1, 3):
        image = torch.zeros(channels, 2, 2, dtype=torch.uint8)
        html = Diagram([image, "patches"])._repr_html_()
        assert html.count("<img") == 1 and "an image → patches" in html


def test_a_diagram_in_a_diagram_is_a_frame_and_a_branch_goes_past():
    block = Diagram([[["→"], ["norm", "layer"]], "+"], "Block, twice")
    html = Diagram(["tokens", block, "head"])._repr_html_()
    frame = html[html.index('class="vb-frame"') : html.index("head</div>")]
    assert "<p>Block, twice</p>" in frame and 'class="vb-box vb-sum">+' in frame
    assert frame.count('class="vb-to"') == 4  # past, between, to the sum, to the head
    assert html.count("<style>") == 1 and html.count("<div") == html.count("</div>")
    assert "tokens → [Block, twice: (as it is | norm → layer) → +] → head" in html


def test_ways_inside_ways_are_told_each_time():
    """Parts of a sequence are checked at random: once is not always."""
    inner = Diagram(["turn"], "rotary")
    told = {repr(Diagram(["in", [["a", inner], [["b"], inner]], "out"])) for _ in range(200)}
    assert len(told) == 1


def test_two_lines_without_a_list_around_them_are_refused():
    diagram = Diagram([["tokens", "→ 17", "out"], ["queries", "keys"]])
    with pytest.raises(TypeError, match="'tokens' stands where a way was expected"):
        diagram._repr_html_()
