"""The start of `soft_answers` as a drawing."""

from collections.abc import Sequence

import numpy as np

from vitbook.explorer.drawing import (
    MOST,
    OKABE_ITO,
    OTHERS,
    drawing,
    framed,
    pixels,
    tag,
    text,
)

MARK = OKABE_ITO[4]  # of the reference
_WIDE, _CELL, _GAP = 680, 46, 6  # px, of the drawing, an image in the row, and between two
_SIDE = 150  # px of the chosen image
_NAMES, _TOLD = 100, 62  # px for the class's name and its share
_ROW, _BAR = 25, 14
_LETTERS = 9  # of a name that stands beside the word "label"


def still(
    data: dict,
    given: np.ndarray,
    marks: np.ndarray | None,
    told: Sequence[str],
    spread: str,
    words: str,
) -> str:
    """All images, the first one large, and the bars of the first teacher.

    Args:
        given: its shares.
        marks: those of the reference, if it is another teacher.
        told: the shares in words.
        spread: of how many classes it is undecided, in words.
    """
    count, classes = len(data["images"]), data["classes"]
    cell = min(_CELL, (_WIDE + _GAP) / count - _GAP)
    parts = []
    for i, address in enumerate(data["images"]):
        parts.append(pixels(address, i * (cell + _GAP), 0, cell, cell))
    parts.append(framed(0, 0, cell, cell))
    top = cell + 34
    tall = _SIDE * data["height"] / data["width"]
    parts += [
        text(0, top - 12, f"{data['teachers'][0]}, temperature "
             f"{data['start']['temperature']:g}", font_weight=600),
        pixels(data["images"][0], 0, top, _SIDE, tall, class_="vb-large"),
        text(0, top + tall + 28, spread, font_size=24, font_weight=700),
        text(0, top + tall + 46, data["spread"]),
    ]  # fmt: skip
    left = _SIDE + 30 + _NAMES
    room = _WIDE - left - _TOLD
    best = int(given.argmax())
    for i, name in enumerate(classes):
        y = top + i * _ROW
        most = i == best
        weight = 700 if most else 400
        parts += [
            text(left - 10, y + 12, _named(name, i == data["labels"][0]), text_anchor="end",
                 font_weight=weight),
            tag("rect", x=left, y=y, width=room, height=_BAR, fill="currentColor",
                fill_opacity=0.08),
            tag("rect", x=left, y=y, width=room * float(given[i]), height=_BAR, class_="vb-share",
                **(MOST if most else OTHERS)),
            text(_WIDE, y + 12, told[i], text_anchor="end", font_weight=weight),
        ]  # fmt: skip
        if marks is not None:
            parts.append(tag("rect", x=left + float(marks[i]) * (room - 3), y=y - 4, width=3,
                             height=_BAR + 8, fill=MARK))  # fmt: skip
    foot = top + len(classes) * _ROW
    for part, anchor in ((0, "start"), (0.5, "middle"), (1, "end")):
        parts.append(text(left + part * room, foot + 10, f"{100 * part:g} %", text_anchor=anchor))
    high = max(foot + 16, top + tall + 52)
    # Its class tells a link to a state which figures of a page are of this kind.
    return drawing(_WIDE, round(high), words, tag("g", *parts, class_="vb-answers"))


def _named(name: str, label: bool) -> str:
    """A class that the image has by its label says so."""
    room = _LETTERS if label else _LETTERS + 6
    short = name if len(name) <= room else f"{name[: room - 1]}…"
    return f"label {short}" if label else short
