"""How the dots of `frontier` lie in a drawing, and the one of its start."""

from vitbook.explorer.drawing import Number, drawing, tag, text
from vitbook.explorer.labels import SIDES, flow, place_labels

SIZES = ((680, 430), (350, 440))  # on a page and on a phone
_LEFT, _RIGHT, _BOTTOM = 42, 10, 36
_FAINT = 0.35  # opacity of models beyond the budget
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


def steps(points: list[tuple[Number, Number]], right: Number) -> str:
    """Corners of the steps, from the first to the drawing's right edge."""
    (x, y), *others = points
    corners = [(x, y)]
    for x, higher in others:
        corners += [(x, y), (x, higher)]
        y = higher
    return " ".join(f"{x:g},{y:g}" for x, y in [*corners, (right, y)])


def still(data: dict, words: str) -> str:
    """The wider drawing at the start."""
    shown, start = data["layouts"][0], data["start"]
    axis, models = data["axes"][start["axis"]], data["models"]
    box, (width, height) = shown["box"], shown["size"]
    left, top, right, bottom = box
    budget = _place(box, axis["places"][start["budget"]], 0)[0]
    best = axis["bought"][start["budget"]]
    within = axis["order"][: axis["counts"][start["budget"]]]
    places = [_place(box, a, m["up"]) for a, m in zip(axis["across"], models, strict=True)]
    parts = [
        tag("rect", x=left, y=top, width=right - left, height=bottom - top, class_="vb-frame",
            fill="none", stroke="currentColor", stroke_opacity=0.4),
        tag("rect", x=budget, y=top, width=right - budget, height=bottom - top,
            fill="currentColor", class_="vb-over-budget", fill_opacity=0.06),
        tag("polyline", points=steps([places[i] for i in axis["stairs"]], right), fill="none",
            class_="vb-stairs", stroke="currentColor"),
    ]  # fmt: skip
    parts += [
        tag("line", x1=_place(box, low, 0)[0], x2=_place(box, high, 0)[0], y1=y, y2=y,
            class_="vb-span", stroke="currentColor")
        for (low, high), (_, y) in zip(axis["spans"], places, strict=True)
        if low < high
    ]  # fmt: skip
    for family, (x, y) in zip(data["families"], shown["legend"], strict=True):
        parts += [
            _dot(family, (left + x + 7, y + 10)), _words(left + x + 18, y + 14, family["name"])
        ]  # fmt: skip
    parts += [
        _words(_place(box, at, 0)[0], bottom + 15, told, text_anchor="middle")
        for at, told in axis["ticks"]
    ]
    parts += [
        _words(left - 5, _place(box, 0, at)[1] + 4, told, text_anchor="end")
        for at, told in data["accuracies"]
    ]
    parts.append(_words(right, height - 4, f"{axis['words']}, {axis['unit']}", text_anchor="end"))
    for number, family in enumerate(data["families"]):
        kin = [i for i, model in enumerate(models) if model["family"] == number]
        dots = (_dot(family, places[i], 1 if i in within else _FAINT) for i in kin)
        parts.append(tag("g", *dots, class_="vb-kin"))
    parts.append(tag("circle", cx=places[best][0], cy=places[best][1], r=11, class_="vb-lit",
                     fill="none", stroke="#0072B2", stroke_width=3))  # fmt: skip
    for i, side in enumerate(shown["sides"][start["axis"]]):
        if side >= 0:
            (x, y), (by, down, anchor) = places[i], SIDES[side]
            weight = 700 if i == best else 400
            parts.append(
                _words(x + by, y + down, models[i]["name"], text_anchor=anchor, font_weight=weight)
            )
    far, bought = budget > (left + right) / 2, axis["told"][start["budget"]]
    parts += [
        tag("line", x1=budget, x2=budget, y1=top - _KNOB / 2, y2=bottom, class_="vb-limit",
            stroke="#0072B2", stroke_width=2),
        tag("circle", cx=budget, cy=top - _KNOB / 2, r=9, class_="vb-budget-grip", fill="none",
            stroke="#0072B2", stroke_width=3),
        text(budget + (-16 if far else 16), top - _KNOB / 2 + 4,
             f"{bought}: {models[best]['name']}", text_anchor="end" if far else "start",
             font_weight=700),
    ]  # fmt: skip
    return drawing(width, height, words, *parts)


def _dot(family: dict, place: tuple[Number, Number], opacity: Number = 1) -> str:
    return tag(
        "polygon", points=family["shape"], fill=family["color"], class_="vb-dot", opacity=opacity,
        stroke="currentColor", transform=f"translate({place[0]:g} {place[1]:g})",
    )  # fmt: skip


def _words(x: Number, y: Number, told: str, **more: object) -> str:
    return text(x, y, told, class_="vb-told", **more)
