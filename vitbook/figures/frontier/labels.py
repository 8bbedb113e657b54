"""Where words stand in a drawing, so that they cover neither each other nor what they name."""

from collections.abc import Mapping, Sequence

from vitbook.figures.parts.drawing import Number

_LETTER, _HIGH = 6.4, 13  # px of a letter at 12 px, on the safe side, and of a line
_ICON, _GAP, _LINE = 18, 16, 20
_DOT = 8  # px around a dot that no other's name enters
# Above to the left, right, left, below to the right, below, above: the shift from the dot, and
# where the text begins.
SIDES = ((-8, -9, "end"), (11, 4, "start"), (-11, 4, "end"), (8, 18, "start"), (0, 22, "middle"),
         (0, -12, "middle"))  # fmt: skip
_BEFORE = {"start": 0, "middle": 0.5, "end": 1}

Box = tuple[Number, Number, Number, Number]


def width_of(words: str) -> float:
    return _LETTER * len(words)


def flow(names: Sequence[str], width: Number) -> list[tuple[float, int]]:
    """Left and top of each entry of a legend whose lines are at most so wide."""
    places, x, y = [], 0.0, 0
    for name in names:
        wide = _ICON + width_of(name)
        if x and x + wide > width:
            x, y = 0.0, y + _LINE
        places.append((round(x, 1), y))
        x += wide + _GAP
    return places


def place_labels(
    dots: Sequence[tuple[Number, Number]],
    names: Sequence[str],
    order: Mapping[int, Sequence[int]],
    area: Box,
) -> list[int]:
    """On which side of its dot each name stands, a number of ``SIDES``; -1 where none is free.

    Args:
        dots: in px.
        order: number of a name, the most important one first -> sides that it may stand on.
        area: left, top, right and bottom, which names do not leave.
    """
    taken = [(x - _DOT, y - _DOT, x + _DOT, y + _DOT) for x, y in dots]
    sides = [-1] * len(dots)
    for i, liked in order.items():
        for side in liked:
            box = _box(dots[i], names[i], side)
            others = (other for j, other in enumerate(taken) if j != i)
            if _inside(box, area) and not any(_overlap(box, other) for other in others):
                sides[i] = side
                taken.append(box)
                break
    return sides


def _box(dot: tuple[Number, Number], name: str, side: int) -> Box:
    right, down, anchor = SIDES[side]
    left = dot[0] + right - _BEFORE[anchor] * width_of(name)
    bottom = dot[1] + down + 3
    return left, bottom - _HIGH, left + width_of(name), bottom


def _inside(box: Box, area: Box) -> bool:
    return box[0] >= area[0] and box[1] >= area[1] and box[2] <= area[2] and box[3] <= area[3]


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
