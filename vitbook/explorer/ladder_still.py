"""How the two ladders of `layer_gradients` lie in a drawing, and that of its start."""

from math import log10

from vitbook.explorer.drawing import OKABE_ITO, Number, drawing, tag, text

SIZES = ((680, 430), (350, 440))  # on a page and on a phone
COLORS = (OKABE_ITO[0], OKABE_ITO[4])  # of Pre-LN and of Post-LN
KNOB = 13  # px, its radius
_LEFT, _GUTTER, _RIGHT = (40, 28), (56, 50), (8, 6)
_TOP, _BOTTOM = 56, 44
_BAR, _THICKEST = 0.62, 16  # of the room of a block, and in px
_APART = 13  # px between two numbers at the axis of blocks
_HALF_WIDE, _TOLD_WIDE = 48, 24  # px, half of the words at the mark of the task and at a rung
FAINT = 0.4  # opacity of all rungs but the last


def layout(depths: list[int], size: tuple[int, int]) -> dict:
    """Where the two panels, the knob and the numbers of blocks lie in a drawing of this size."""
    number = SIZES.index(size)
    left, gutter, right = _LEFT[number], _GUTTER[number], _RIGHT[number]
    wide = (size[0] - left - gutter - right) / 2
    bottom = size[1] - _BOTTOM
    pitch = (bottom - _TOP) / depths[-1]
    shown: list[int] = []
    for depth in reversed(depths):
        if not shown or (shown[-1] - depth) * pitch >= _APART:
            shown.append(depth)
    return {
        "size": size, "top": _TOP, "bottom": bottom, "pitch": pitch,
        "panels": [[left, left + wide], [size[0] - right - wide, size[0] - right]],
        "knob": left + wide + gutter / 2, "bar": round(min(_BAR * pitch, _THICKEST), 2),
        "shown": shown,
    }  # fmt: skip


def still(data: dict, words: str) -> str:
    """The wider drawing at the start."""
    shown, start = data["layouts"][0], data["start"]
    top, bottom, pitch = shown["top"], shown["bottom"], shown["pitch"]
    (first, _), (_, last) = shown["panels"]
    depth = start["depth"]
    edge, knob = bottom - depth * pitch, shown["knob"]
    parts = [
        _words(first - 6, _middle(shown, each) + 4, str(each), text_anchor="end")
        for each in shown["shown"]
    ]
    parts += [
        _words(2, top - 8, "block"),
        _words(last, shown["size"][1] - 6, f"{data['measured']}, logarithmic", text_anchor="end"),
        _words(knob, 28, "depth", text_anchor="middle"),
    ]
    for number in range(2):
        parts += _panel(data, shown, number, depth, start["initialisation"])
    parts += [
        tag("line", x1=first, x2=last, y1=edge, y2=edge, class_="vb-limit", stroke=OKABE_ITO[0],
            stroke_width=2),
        tag("circle", cx=knob, cy=edge, r=KNOB, class_="vb-budget-grip", fill="none",
            stroke=OKABE_ITO[0], stroke_width=3),
        _words(knob, edge + 4, str(depth), text_anchor="middle", font_weight=700),
    ]  # fmt: skip
    # Its class tells a link to a state which figures of a page are of this kind.
    return drawing(*shown["size"], words, tag("g", *parts, class_="vb-ladder"))


def _panel(data: dict, shown: dict, number: int, depth: int, initialisation: int) -> list[str]:
    top, bottom, pitch, bar = (shown[key] for key in ("top", "bottom", "pitch", "bar"))
    left, right = shown["panels"][number]
    spans, color = data["gradients"][initialisation][number], COLORS[number]
    span = spans[data["depths"].index(depth)]
    edge = bottom - depth * pitch

    def at(gradient: Number) -> float:
        return _across(data, left, right, log10(gradient))

    def clamped(x: Number, wide: Number) -> Number:
        return min(max(x, left + wide), right - wide)

    half = at(spans[0]["mean"][-1] / 2)
    parts = [
        _words(left, 16, data["norms"][number], font_weight=700),
        tag("rect", x=left, y=top, width=right - left, height=bottom - top, class_="vb-frame",
            fill="none", stroke="currentColor", stroke_opacity=0.4),
        tag("rect", x=left, y=top, width=right - left, height=max(edge - top, 0),
            fill="currentColor", class_="vb-over-budget", fill_opacity=0.06),
    ]  # fmt: skip
    for place, words in data["ticks"]:
        x = _across(data, left, right, place)
        parts += [
            tag("line", x1=x, x2=x, y1=top, y2=bottom, class_="vb-line", stroke="currentColor"),
            _words(x, bottom + 15, words, text_anchor="middle"),
        ]  # fmt: skip
    for block, (mean, low, high) in enumerate(
        zip(span["mean"], span["low"], span["high"], strict=True), 1
    ):
        y = _middle(shown, block)
        opacity = 1 if block == depth else FAINT
        parts.append(
            tag("rect", x=left, y=y - bar / 2, width=at(mean) - left, height=bar, fill=color,
                fill_opacity=opacity, class_=f"vb-rung vb-norm{number}")
        )  # fmt: skip
        if low < high:
            parts.append(tag("line", x1=at(low), x2=at(high), y1=y, y2=y, stroke="currentColor",
                             class_="vb-seeds-span"))  # fmt: skip
    curve = [
        (at(each["mean"][-1]), _middle(shown, d))
        for d, each in zip(data["depths"], spans, strict=True)
    ]
    parts.append(tag("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in curve),
                     class_="vb-tops", fill="none", stroke="currentColor"))  # fmt: skip
    parts += [tag("circle", cx=x, cy=y, r=2.5, class_="vb-top-dot") for x, y in curve]
    parts += [
        tag("line", x1=half, x2=half, y1=top - 16, y2=bottom, class_="vb-half",
            stroke="currentColor", stroke_dasharray="4 3"),
        _words(clamped(half, _HALF_WIDE), top - 20,
               f"half of depth {data['depths'][0]}", text_anchor="middle"),
        _words(clamped(at(span["mean"][-1]), _TOLD_WIDE), edge - 7, span["told"],
               text_anchor="middle", font_weight=700),
    ]  # fmt: skip
    return parts


def _across(data: dict, left: Number, right: Number, place: Number) -> float:
    low, high = data["axis"]
    return round(left + (place - low) / (high - low) * (right - left), 1)


def _middle(shown: dict, block: int) -> float:
    return round(shown["bottom"] - (block - 0.5) * shown["pitch"], 1)


def _words(x: Number, y: Number, told: str, **more: object) -> str:
    return text(x, y, told, class_="vb-told", **more)
