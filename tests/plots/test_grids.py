import pytest

from vitbook.plots import score_grids
from vitbook.plots.style import INK, ON_DARK, ON_LIGHT

PANELS = {"a": {(1e-3, 0.0): 90.4, (8e-3, 0.0): 10.0}, "b": {(1e-3, 4.0): 55}}


def draw(panels=PANELS, **more):
    return score_grids(panels, "A claim", x_label="rate", y_label="warm-up", **more)


def test_every_score_stands_in_its_cell_and_a_gap_is_told():
    first, second = draw().axes
    written = {text.get_position(): text.get_text() for text in first.texts}
    assert written == {(0, 0): "90", (1, 0): "10", (0, 1): "not run", (1, 1): "not run"}
    assert {t.get_position(): t.get_text() for t in second.texts}[0, 1] == "55"
    assert [label.get_text() for label in first.get_xticklabels()] == ["0.001", "0.008"]
    assert [axis.get_title() for axis in (first, second)] == ["a", "b"]


def test_colours_mean_the_same_in_all_panels_and_words_stand_out():
    figure = draw(limits=(0, 100))
    assert {axis.images[0].get_clim() for axis in figure.axes} == {(0, 100)}
    colors = {text.get_text(): text.get_color() for text in figure.axes[0].texts}
    assert colors["10"] == ON_DARK and colors["90"] == ON_LIGHT and colors["not run"] == INK


def test_panels_go_on_in_the_next_row():
    figure = draw({name: {(1, 1): 1.0} for name in "abc"}, columns=2)
    assert [axis.get_visible() for axis in figure.axes] == [True, True, True, False]


@pytest.mark.parametrize(
    ("panels", "more", "said"),
    [
        ({}, {}, "no scores"),
        ({"a": {}}, {}, "no scores"),
        (PANELS, {"limits": (1, 1)}, r"limits \(1, 1\): expected the lower one first"),
    ],
)
def test_what_cannot_be_drawn_is_refused(panels, more, said):
    with pytest.raises(ValueError, match=said):
        draw(panels, **more)
