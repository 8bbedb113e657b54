"""The finished chart of `checkpoint_ranking`, for a page without scripts."""

from html import escape
from itertools import pairwise
from textwrap import wrap

from vitbook.explorer.agreement import agreement, first_choices, places
from vitbook.explorer.drawing import OKABE_ITO, Number, drawing, tag, text

_NAMES, _APART, _ROW, _TOP, _SIDE = 160, 100, 42, 50, 34  # px
_END = 220  # px of what stands right of the last order


def finding(data: dict) -> str:
    """Who is best after fine-tuning, and what each score knew of it."""
    cards, tuned = data["cards"], [card["tuned"] for card in data["cards"]]
    order = sorted(range(len(cards)), key=lambda i: -tuned[i])
    best = ", ".join(f"{cards[i]['name']} {cards[i]['told']}" for i in order)
    scores = " ".join(_sentence(score, tuned) for score in data["scores"])
    return f"Accuracy after fine-tuning, the best first: {best}. {scores} {data['close']}"


def _sentence(score: dict, tuned: list[float]) -> str:
    found = agreement(score["values"], tuned)
    ends = " or ".join(map(str, first_choices(score["values"], tuned)))
    missing = score["values"].count(None)
    without = f" ({missing} without this score)" if missing else ""
    tau = f"{found.tau:.2f}".replace("-", "−")
    return (
        f"By {score['name']} {found.words} are in the right order{without}, Kendall's τ-b {tau}, "
        f"and the first choice ends at place {ends}."
    )


def still(data: dict, words: str) -> str:
    """A column for each order, a line for each checkpoint; then the finding in words."""
    cards, tuned = data["cards"], [card["tuned"] for card in data["cards"]]
    columns = [*(score["values"] for score in data["scores"]), tuned]
    rows = [_rows(values) for values in columns]
    across = [_NAMES + _APART * column for column in range(len(columns))]
    parts = [text(across[-1], 26, "after fine-tuning", font_weight=600),
             text(across[-1], 40, "mean (range over seeds)")]  # fmt: skip
    for x, score in zip(across, data["scores"], strict=False):
        parts += _head(x, score["name"], agreement(score["values"], tuned).words)
    for i, (card, place) in enumerate(zip(cards, places(tuned), strict=True)):
        down = [_TOP + _ROW * (row[i] + 0.5) for row in rows]
        known = [values[i] is not None for values in columns]
        parts += _path(list(zip(across, down, known, strict=True)), best=place == 1)
        parts += _ends(card, (across[0], down[0]), (across[-1], down[-1]))
    names = ", by ".join(score["name"] for score in data["scores"])
    alt = f"The order of {len(cards)} checkpoints by {names}, and after fine-tuning"
    chart = drawing(across[-1] + _END, _TOP + _ROW * len(cards), alt, *parts)
    return f"{chart}<p>{escape(words)}</p>"


def _head(x: Number, name: str, told: str) -> list[str]:
    """The name of a score in one line or two, and what it gets right."""
    lines = wrap(name, 15, max_lines=2, placeholder="…")
    return [
        *(text(x, 40 - 14 * (len(lines) - i), line, text_anchor="middle", font_weight=600)
          for i, line in enumerate(lines)),
        text(x, 40, told, text_anchor="middle"),
    ]  # fmt: skip


def _path(points: list[tuple[Number, Number, bool]], *, best: bool) -> list[str]:
    """A checkpoint through all orders, dashed to and from a score that it does not have."""
    line = {"stroke": OKABE_ITO[0], "stroke_width": 3} if best else {
        "stroke": "currentColor", "stroke_width": 1.5, "stroke_opacity": 0.45}  # fmt: skip
    lines = [
        tag("line", x1=x, y1=y, x2=x2, y2=y2, stroke_dasharray="none" if has and also else "2 4",
            **line)
        for (x, y, has), (x2, y2, also) in pairwise(points)
    ]  # fmt: skip
    return lines + [
        tag("circle", cx=x, cy=y, r=4, fill=line["stroke"]) if has
        else text(x, y + 4, "none", text_anchor="middle")
        for x, y, has in points
    ]  # fmt: skip


def _ends(card: dict, first: tuple[Number, Number], last: tuple[Number, Number]) -> list[str]:
    """A checkpoint's name at both ends of its line; at the last what became of it."""
    (x, y), (x2, y2) = first, last
    right = x2 + 20 + _SIDE
    parts = [
        text(x - 16, y + 4, _cut(card["name"], 21), text_anchor="end"),
        text(right, y2 - 3, _cut(card["name"], 26), font_weight=600),
        text(right, y2 + 13, f"{card['told']} ({card['seeds']})"),
    ]
    if card["filters"]:
        parts.append(tag("image", href=card["filters"], x=x2 + 12, y=y2 - _SIDE / 2, width=_SIDE,
                         height=_SIDE))  # fmt: skip
    return parts


def _rows(values: list) -> list[int]:
    """The row of each card in a column; what has no score comes last."""
    order = sorted(range(len(values)), key=lambda i: (values[i] is None, -(values[i] or 0)))
    return [order.index(card) for card in range(len(values))]


def _cut(name: str, most: int) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"
