"""How the two ladders of `layer_gradients` lie in a drawing."""

SIZES = ((680, 430), (350, 440))  # on a page and on a phone
_LEFT, _GUTTER, _RIGHT = (40, 28), (56, 50), (8, 6)
_TOP, _BOTTOM = 56, 44
_BAR, _THICKEST = 0.62, 16  # of the room of a block, and in px
_APART = 13  # px between two numbers at the axis of blocks


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
