"""Digits in all sizes that the reader can give them, and a canvas on which they lie."""

import numpy as np
import torch
import torch.nn.functional as F

TENTHS = range(10, 21)  # of the size that a digit comes in: 1 to 2 times as large


def enlarged(digits: np.ndarray) -> list[list[np.ndarray]]:
    """Of each digit, uint8 "n 1 height width", its ink at each of the sizes, in order."""
    return [[_grown(_ink(digit), tenths / 10) for tenths in TENTHS] for (digit,) in digits]


def _ink(digit: np.ndarray) -> np.ndarray:
    rows, columns = (np.flatnonzero(digit.any(axis)) for axis in (1, 0))
    return digit[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def _grown(ink: np.ndarray, times: float) -> np.ndarray:
    grown = F.interpolate(
        torch.from_numpy(ink).float()[None, None], size=[round(side * times) for side in ink.shape],
        mode="bilinear", align_corners=False,
    )  # fmt: skip
    return grown[0, 0].round().to(torch.uint8).numpy()


def laid(sizes: list[list[np.ndarray]], side: int, placed: list) -> np.ndarray:
    """A canvas of side x side pixels; where two digits meet the lighter pixel counts.

    Args:
        sizes: as of :func:`enlarged`.
        placed: of each digit its number, left and top in pixels, and size in tenths.
    """
    canvas = np.zeros((side, side), np.uint8)
    for which, left, top, tenths in placed:
        patch = sizes[which][tenths - TENTHS[0]]
        place = canvas[top : top + patch.shape[0], left : left + patch.shape[1]]
        np.maximum(place, patch, out=place)
    return canvas
