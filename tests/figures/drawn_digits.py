"""Ten digits as a hand draws them."""

import numpy as np


def arc(x, y, wide, high, start, end):
    turns = np.radians(np.linspace(start, end, 20))
    return [(x + wide * np.cos(turn), y + high * np.sin(turn)) for turn in turns]


# 0 to 1 from the left and from the top.
DIGITS = [
    [arc(0.5, 0.5, 0.28, 0.45, -90, 270)],
    [[(0.38, 0.2), (0.55, 0.05), (0.55, 0.95)]],
    [[*arc(0.5, 0.3, 0.27, 0.25, -170, 30), (0.22, 0.95), (0.8, 0.95)]],
    [arc(0.45, 0.28, 0.27, 0.23, -150, 90) + arc(0.45, 0.73, 0.3, 0.22, -90, 150)],
    [[(0.45, 0.05), (0.2, 0.6), (0.82, 0.6)], [(0.62, 0.35), (0.58, 0.95)]],
    [[(0.75, 0.05), (0.32, 0.05), (0.28, 0.45), *arc(0.45, 0.69, 0.3, 0.26, -115, 140)]],
    [[(0.62, 0.05), (0.38, 0.35), *arc(0.5, 0.7, 0.25, 0.25, 200, -160)]],
    [[(0.2, 0.06), (0.8, 0.06), (0.42, 0.95)], [(0.32, 0.5), (0.72, 0.5)]],
    [arc(0.5, 0.27, 0.2, 0.22, 90, -270) + arc(0.5, 0.73, 0.25, 0.23, -90, 270)],
    [[*arc(0.48, 0.3, 0.24, 0.25, 0, -360), (0.7, 0.5), (0.55, 0.95)]],
]


def placed(digit, scale=1.0, left=0.0, top=0.0):
    return [[[left + scale * x, top + scale * y] for x, y in stroke] for stroke in digit]
