"""The start of `masked_photograph` as a drawing."""

import numpy as np

from vitbook.explorer.answers import percent
from vitbook.explorer.drawing import (
    MOST,
    OTHERS,
    Number,
    drawing,
    framed,
    pixels,
    png,
    tag,
    text,
)

HATCH, STRIPE = (104, 144), 2  # what hides a patch, as in masked_photograph.js
_SIDE, _GAP, _TOP = 216, 16, 24  # px
_ROW = 24


def still(
    data: dict, photo: np.ndarray, truth: np.ndarray, hits: tuple[int, int, int], words: str
) -> str:
    """What the model sees, its guesses and the answer; the counts, and one patch's guesses.

    Args:
        photo: uint8 "c h w".
        truth: classes of its patches.
        hits: of the model and of two nulls.
    """
    (rows, columns), found = data["grid"], data["answers"]
    touched, channels = data["start"]["patch"], data["channels"]
    high = _SIDE * photo.shape[1] / photo.shape[2]
    cell = high / rows, _SIDE / columns
    guess = {patch: each["top"][0][0] for patch, each in found.items()}
    panels = (
        ("What the model sees", dict.fromkeys(found)), ("The model's guess", guess),
        ("The answer", {patch: int(truth[patch]) for patch in found}),
    )  # fmt: skip
    parts = []
    for i, (title, fill) in enumerate(panels):
        x = i * (_SIDE + _GAP)
        filled = {patch: None if color is None else middle(color, channels)
                  for patch, color in fill.items()}  # fmt: skip
        shown = png(_filled(photo, filled, data["patch"], columns))
        row, column = divmod(touched, columns)
        parts += [
            text(x, 14, title, font_weight=600), pixels(shown, x, _TOP, _SIDE, high),
            framed(x + column * cell[1], _TOP + row * cell[0], cell[1], cell[0]),
        ]  # fmt: skip
    edge = {"fill": "#fff", "stroke": "#000", "stroke_width": 1.5}
    parts += [
        tag("circle", cx=_SIDE + _GAP + (patch % columns + 0.5) * cell[1],
            cy=_TOP + (patch // columns + 0.5) * cell[0], r=min(cell) / 8, **edge)
        for patch in found if found[patch]["rank"] == 1
    ]  # fmt: skip
    top = _TOP + high + 30
    parts.append(text(0, top, f"Exactly right, of {len(found)} masked patches", font_weight=600))
    nulls = ("the model", "the commonest colour", "the nearest patches' mean")
    for i, (name, count) in enumerate(zip(nulls, hits, strict=True)):
        y = top + 30 * (i + 1)
        parts += [text(0, y, str(count), font_size=22, font_weight=700), text(40, y, name)]
    parts += _bars(data, int(truth[touched]), _SIDE + _GAP, top)
    wide = 3 * _SIDE + 2 * _GAP
    # Its class tells a link to a state which figures of a page are of this kind.
    return drawing(wide, round(top + 7 * _ROW), words, tag("g", *parts, class_="vb-masks"))


def _bars(data: dict, right: int, left: Number, top: Number) -> list[str]:
    """The true colour of the touched patch and the likeliest ones."""
    found, channels = data["answers"][data["start"]["patch"]], data["channels"]
    row, column = divmod(data["start"]["patch"], data["grid"][1])
    steps = "grey" if channels == 1 else "red, green, blue"
    wide = 2 * _SIDE + _GAP
    parts = [text(left, top, f"Guesses for row {row + 1}, column {column + 1}, as steps 0 to 7 of "
                  f"{steps}", font_weight=600)]  # fmt: skip
    for i, (color, chance) in enumerate([[right, found["chance"]], *found["top"]]):
        y = top + 10 + i * _ROW
        name = " ".join(map(str, levels(color, channels)))
        fill = "rgb({},{},{})".format(*middle(color, channels))
        parts += [
            tag("rect", x=left, y=y, width=18, height=18, fill=fill, stroke="currentColor",
                stroke_opacity=0.4),
            text(left + 28, y + 14, name if i else f"true: {name}"),
            tag("rect", x=left + 120, y=y + 2, width=(wide - 180) * chance, height=14,
                class_="vb-share", **(MOST if color == right else OTHERS)),
            text(left + wide, y + 14, percent(chance), text_anchor="end"),
        ]  # fmt: skip
    return parts


def levels(color: int, channels: int) -> list[int]:
    """The steps of a class, 0 to 7 in each channel."""
    return [color // 8 ** (channels - 1 - i) % 8 for i in range(channels)]


def middle(color: int, channels: int) -> list[int]:
    """The colour in the middle of a class, as red, green and blue."""
    found = [32 * level + 16 for level in levels(color, channels)]
    return found if channels == 3 else 3 * found


def _filled(photo: np.ndarray, fill: dict, patch: list[int], columns: int) -> np.ndarray:
    """The photograph as "h w 3", some patches filled with a colour, or with stripes for None."""
    image = np.broadcast_to(photo.transpose(1, 2, 0), (*photo.shape[1:], 3)).copy()
    rows, across = np.indices(image.shape[:2])
    stripes = np.array(HATCH, np.uint8)[(rows + across) // STRIPE % 2]
    for each, color in fill.items():
        row, column = divmod(each, columns)
        part = np.s_[
            row * patch[0] : (row + 1) * patch[0], column * patch[1] : (column + 1) * patch[1]
        ]
        image[part] = stripes[part][..., None] if color is None else color
    return image
