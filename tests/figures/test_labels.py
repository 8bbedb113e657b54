"""Names in a drawing stand beside their dots, and cover nothing."""

from hypothesis import given
from hypothesis import strategies as st

from vitbook.figures.frontier import labels
from vitbook.figures.frontier.labels import SIDES, flow, place_labels, width_of

AREA = (0, 0, 300, 200)
RIGHT_THEN_LEFT = (1, 2)


def test_a_legend_goes_on_in_the_next_line():
    names = ["abc", "de", "a long name", "f"]
    wide = 18 + width_of("abc")
    places = flow(names, 130)
    assert places[0] == (0, 0) and places[1] == (round(wide + 16, 1), 0)
    assert places[2] == (0, 20) and places[3][1] == 20
    assert flow(["longer than the line"], 10) == [(0, 0)]


def test_a_name_moves_to_where_there_is_room():
    """The second dot lies where the first one's name would stand; the third is hemmed in."""
    dots, names = [(100, 50), (130, 50), (290, 100), (10, 100)], ["first", "b", "right", "left"]
    order = dict.fromkeys(range(4), RIGHT_THEN_LEFT)
    assert place_labels(dots, names, order, AREA) == [2, 1, 2, 1]
    dots += [(80, 50)]  # now the left is taken too
    assert place_labels(dots, [*names, "e"], order, AREA)[0] == -1


def test_the_first_in_the_order_chooses_first():
    dots, names = [(100, 50), (100, 60)], ["aaaa", "bbbb"]
    assert place_labels(dots, names, {0: (1,), 1: (1,)}, AREA) == [1, -1]
    assert place_labels(dots, names, {1: (1,), 0: (1,)}, AREA) == [-1, 1]


@given(
    st.lists(st.tuples(st.floats(0, 300), st.floats(0, 200)), min_size=1, max_size=25),
    st.text("abcd", min_size=1, max_size=9),
)
def test_no_name_covers_another_one_or_a_dot(dots, name):
    names = [name] * len(dots)
    sides = place_labels(dots, names, dict.fromkeys(range(len(dots)), range(len(SIDES))), AREA)
    boxes = {i: labels._box(dots[i], name, side) for i, side in enumerate(sides) if side >= 0}
    for i, box in boxes.items():
        assert labels._inside(box, AREA)
        assert not any(labels._overlap(box, other) for j, other in boxes.items() if j != i)
        for j, (x, y) in enumerate(dots):
            assert j == i or not (box[0] < x < box[2] and box[1] < y < box[3])
