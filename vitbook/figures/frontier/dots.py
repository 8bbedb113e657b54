"""How the dots of `frontier` lie in a drawing."""

from vitbook.figures.frontier.labels import flow, place_labels
from vitbook.figures.parts.drawing import Number

SIZES = ((680, 430), (350, 440))  # on a page and on a phone
_LEFT, _RIGHT, _BOTTOM = 42, 10, 36
_KNOB = 40  # px above the field, where the budget is held


def layout(families: list[dict], models: list[dict], axes: list[dict], size: tuple) -> dict:
    """Where field, legend and names lie in a drawing of this size."""
    legend = flow([family["name"] for family in families], size[0] - _LEFT - _RIGHT)
    top = legend[-1][1] + 20 + _KNOB
    box = (_LEFT, top, size[0] - _RIGHT, size[1] - _BOTTOM)
    names = [model["name"] for model in models]
    sides = []
    for axis in axes:
        # Those whom no other beats come first, on this axis and then on others. There is no dot
        # above to the left of a step.
        order = {i: (0, 2, 5, 3, 1) for i in axis["stairs"]}
        others = [*(i for a in axes for i in a["stairs"]), *range(len(models))]
        order |= {i: (1, 2, 3, 4, 5) for i in others if i not in order}
        dots = [_place(box, a, m["up"]) for a, m in zip(axis["across"], models, strict=True)]
        sides.append(place_labels(dots, names, order, box))
    return {"size": size, "box": box, "legend": legend, "sides": sides}


def _place(box: tuple, across: Number, up: Number) -> tuple[Number, Number]:
    left, top, right, bottom = box
    return round(left + across * (right - left), 1), round(bottom - up * (bottom - top), 1)
