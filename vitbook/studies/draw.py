"""Digits as many hands draw them, and how many of them a model reads."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from vitbook.training import predict

MODEL = "drawn_digits-vit_micro_patch2_8-seed0-eed9b4ba"  # the one on the page
NETWORK = "drawn_digits-resnet8_digits-seed0-b4857066"  # a convolutional network beside it
SIDE = 512  # of the pad, in points
SEED = 0  # of the drawings that are told; 1 was for choosing how to train
EACH = 20  # drawings of a digit

# As in handprint.js.
BITMAP, BOX, BLOCK = 32, 20, 4
NIB = 0.19
THICK, THIN = (412, 560), (256, 108)
EDGE = 2

Strokes = list[list[list[int]]]  # points [x, y] of the pad, from the left and from the top
Path = list[tuple[float | int, float | int]]


def _arc(x, y, wide, high, start, end) -> Path:
    turns = np.radians(np.linspace(start, end, 24))
    return [(x + wide * np.cos(turn), y + high * np.sin(turn)) for turn in turns]


def _paths(digit: int, rng: np.random.Generator) -> list[Path]:
    """The way of the pen in a box from (0, 0) to (1, 1), in one of up to three fashions."""
    u, fashion = rng.uniform, rng.integers(3)
    if digit == 0:  # not quite closed, or beyond its start
        start = u(-130, -40)
        return [_arc(0.5, 0.5, 0.5, 0.5, start, start - u(325, 390))]
    if digit == 1:  # a bar; with a flag, as in Europe; with a foot, too
        top = (u(0.5, 0.65), 0)
        if fashion == 0:
            return [[top, (u(0.5, 0.6), 1)]]
        flag = [(u(0, 0.25), u(0.2, 0.45)), top, (top[0], 1)]
        return [flag] if fashion == 1 else [flag, [(u(0, 0.3), 1), (u(0.85, 1.1), 1)]]
    if digit == 2:  # with a loop, or a corner
        top = _arc(0.5, 0.3, 0.45, 0.3, u(-185, -140), u(15, 45))
        if fashion == 0:
            loop = _arc(0.2, 0.85, 0.18, 0.12, -20, -330)[2:]
            return [[*top, (0.3, 0.8), *loop, (0.55, 0.9), (1, u(0.9, 1))]]
        return [[*top, (u(0, 0.1), 1), (1, u(0.93, 1.03))]]
    if digit == 3:  # with a flat top, or round
        low = _arc(0.45, 0.72, 0.5, 0.28, -85, u(130, 170))
        if fashion == 0:
            return [[(0.05, 0), (u(0.8, 0.95), 0), (u(0.35, 0.5), u(0.38, 0.45)), *low]]
        return [[*_arc(0.45, 0.24, 0.42, 0.24, u(-175, -130), 75), *low]]
    if digit == 4:  # closed; open, like a chair; open, with a short second stroke
        if fashion == 0:
            return [[(0.7, 1), (0.7, 0), (0, u(0.6, 0.7)), (1, 0.65)]]
        if fashion == 1:
            chair = [(u(0.05, 0.2), 0), (0.05, u(0.5, 0.6)), (1, u(0.5, 0.6))]
            return [chair, [(u(0.7, 0.85), u(-0.05, 0.2)), (u(0.65, 0.8), 1)]]
        angle = [(u(0.4, 0.6), 0), (0, u(0.55, 0.65)), (1, u(0.55, 0.65))]
        return [angle, [(u(0.65, 0.75), u(0.25, 0.4)), (u(0.6, 0.72), 1)]]
    if digit == 5:  # its hat last, or one stroke
        belly = _arc(0.42, 0.68, 0.5, 0.32, -125, u(120, 160))
        body = [(u(0.15, 0.25), 0.02), (u(0.08, 0.18), 0.45), *belly]
        hat = (u(0.8, 1), u(-0.03, 0.04))
        return [body, [body[0], hat]] if fashion == 0 else [[hat, *body]]
    high = u(0.21, 0.32)  # half of a loop's height
    if digit == 6:
        loop = _arc(0.5, 1 - high, 0.46, high, 190, u(-190, -130))
        return [[(u(0.55, 0.85), 0), (u(0.2, 0.35), u(0.25, 0.35)), *loop]]
    if digit == 7:  # with a serif, plain, with a bar as in Europe
        main = [(0, u(0, 0.06)), (u(0.9, 1), u(-0.02, 0.06)), (u(0.25, 0.5), 1)]
        if fashion == 0:
            main = [(u(-0.03, 0.03), u(0.12, 0.2)), *main]
        bar = [(u(0.15, 0.3), u(0.45, 0.55)), (u(0.8, 0.95), u(0.42, 0.55))]
        return [main, bar] if fashion == 2 else [main]
    if digit == 8:  # two rings, or one stroke
        waist = u(0.42, 0.52)
        if fashion == 0:
            upper = _arc(0.5, waist / 2, u(0.32, 0.42), waist / 2, 80, 80 - u(340, 380))
            return [upper, _arc(0.5, (1 + waist) / 2, 0.48, (1 - waist) / 2, -90, u(245, 280))]
        turns = np.linspace(u(0.1, 0.6), 2 * np.pi + u(-0.1, 0.5), 50)
        heights = 0.5 - 0.5 * np.cos(turns)
        widths = np.where(heights < 0.5, 0.38, 0.46)
        return [list(zip(0.5 + widths * np.sin(2 * turns), heights, strict=True))]
    start = u(-50, 10)  # 9, with a hook or a straight tail
    ring = _arc(0.45, high, 0.42, high, start, start - u(310, 375))
    if fashion == 0:
        tail = _arc(0.5, 0.75, 0.38, 0.25, 10, u(110, 150))
        return [[*ring, (u(0.82, 0.92), 0.2), (0.88, 0.6), *tail]]
    return [[*ring, (u(0.85, 0.92), u(0.1, 0.3)), (u(0.6, 0.9), 1)]]


def _every(path: Path | np.ndarray, step: float) -> Float[np.ndarray, "points 2"]:
    """Points of a path at even steps: a fast hand leaves few."""
    path = np.asarray(path, float)
    way = np.r_[0, np.hypot(*np.diff(path, axis=0).T).cumsum()]
    at = np.linspace(0, way[-1], max(2, round(way[-1] / step) + 1))
    return np.stack([np.interp(at, way, path[:, axis]) for axis in (0, 1)], axis=1)


def drawing(digit: int, rng: np.random.Generator) -> Strokes:
    """A digit by a hand of its own: fashion, width, slant, turn, wobble, speed, size and place."""
    u = rng.uniform
    wide, slant, turn = u(0.45, 0.95), u(-0.15, 0.35), np.radians(u(-9, 9))
    wobble, tremor, step = u(0, 0.035), u(0, 0.008), u(0.03, 0.14)
    phases, waves = u(0, 2 * np.pi, 2), 2 * u(2, 6, 2)
    strokes = []
    for path in _paths(digit, rng):
        x, y = _every(_every(path, 0.02) * [wide, 1], step).T
        x, y = (
            x + wobble * np.sin(waves[0] * y + phases[0]),
            y + wobble * np.sin(waves[1] * x + phases[1]),
        )
        x = x - slant * (y - 0.5)
        x, y = x * np.cos(turn) - y * np.sin(turn), x * np.sin(turn) + y * np.cos(turn)
        strokes.append(np.stack([x, y], axis=1) + tremor * rng.normal(size=(len(x), 2)))
    points = np.concatenate(strokes)
    corner, extent = points.min(0), np.ptp(points, axis=0)
    size = u(0.25, 0.9) / extent.max()
    place = u(0.03, 0.97 - extent * size)
    on_pad = (np.rint((place + (s - corner) * size) * (SIDE - 1)) for s in strokes)
    return [stroke.astype(int).clip(0, SIDE - 1).tolist() for stroke in on_pad]


def drawings(each: int = EACH, seed: int = SEED) -> tuple[list[Strokes], list[int]]:
    """``each`` drawings of all ten digits, and what they mean; nothing has learned from them."""
    rng = np.random.default_rng(seed)
    meant = [digit for digit in range(10) for _ in range(each)]
    return [drawing(digit, rng) for digit in meant], meant


def _layer(ink: Bool[np.ndarray, "h w"], grow: bool) -> Bool[np.ndarray, "h w"]:
    p = np.pad(ink, 1)
    beside = [p[:-2, 1:-1], p[2:, 1:-1], p[1:-1, :-2], p[1:-1, 2:]]
    return ink | np.any(beside, axis=0) if grow else ink & np.all(beside, axis=0)


def _upright(ink: Bool[np.ndarray, "h w"]) -> Bool[np.ndarray, "h w"]:
    rows = np.flatnonzero(ink.any(axis=1))
    top, bottom = rows[0] + EDGE, rows[-1] - EDGE
    if top >= bottom or not (ink[top].any() and ink[bottom].any()):
        return ink
    lean = (ink[top].argmax() - ink[bottom].argmax()) / (bottom - top)
    moves = np.floor((np.arange(BITMAP) - BITMAP / 2) * lean + 0.5).astype(int)
    columns = np.arange(BITMAP) - moves[:, None]
    inside = (columns >= 0) & (columns < BITMAP)
    return np.take_along_axis(ink, columns.clip(0, BITMAP - 1), axis=1) & inside


def bitmap(strokes: Strokes) -> Bool[np.ndarray, "32 32"]:
    """As ``bitmapOf`` of ``handprint.js``, to the pixel: stretched, of even thickness, upright."""
    points = np.concatenate(strokes).astype(float)
    corner, extent = points.min(0), np.ptp(points, axis=0)
    nib = NIB * max(extent.max(), 1)
    across, down = (extent + nib) / (BOX, BITMAP)
    x = (corner[0] - nib / 2 + (np.arange(BOX) + 0.5) * across)[None, :]
    y = (corner[1] - nib / 2 + (np.arange(BITMAP) + 0.5) * down)[:, None]
    inked = np.zeros((BITMAP, BOX), bool)
    for stroke in strokes:
        for (ax, ay), (bx, by) in zip(stroke[:1] + stroke, stroke, strict=False):
            dx, dy = bx - ax, by - ay
            along = (((x - ax) * dx + (y - ay) * dy) / (dx * dx + dy * dy or 1)).clip(0, 1)
            u, v = x - ax - along * dx, y - ay - along * dy
            inked |= u * u + v * v <= (nib / 2) ** 2
    ink = np.pad(inked, ((0, 0), ((BITMAP - BOX) // 2,) * 2))
    off = sum(ink.sum() > most for most in THICK)
    on = sum(ink.sum() < least for least in THIN)
    for _ in range(off + on):
        ink = _layer(ink, grow=bool(on))
    return _upright(ink)


def seen(strokes: Strokes) -> Int[np.ndarray, "8 8"]:
    """Ink in blocks of 4 x 4 of the bitmap, 0 to 16, as in the training digits."""
    side = BITMAP // BLOCK
    return bitmap(strokes).reshape(side, BLOCK, side, BLOCK).sum(axis=(1, 3))


@dataclass(frozen=True)
class Reading:
    """What a model makes of drawings.

    Attributes:
        images: as it saw them, uint8 "n 1 8 8".
        meant, read: digits.
    """

    images: Tensor
    meant: list[int]
    read: list[int]

    @property
    def right(self) -> int:
        return sum(a == b for a, b in zip(self.meant, self.read, strict=True))

    def mistakes(self, most: int = 8) -> dict[str, Tensor]:
        """The commonest mistakes in words, each with the first image of it, uint8 "1 8 8"."""
        pairs = list(zip(self.meant, self.read, strict=True))
        kinds = Counter(pair for pair in pairs if pair[0] != pair[1])
        return {
            f"{a} read as {b}" + (f", {count} times" if count > 1 else ""): self.images[
                pairs.index((a, b))
            ]
            for (a, b), count in kinds.most_common(most)
        }


def read(model: nn.Module, each: int = EACH, seed: int = SEED) -> Reading:
    """Show a model of the digits ``each`` drawings of all ten."""
    strokes, meant = drawings(each, seed)
    levels = np.stack([seen(each) for each in strokes])
    images = torch.from_numpy(np.rint(levels * 255 / BLOCK**2).astype(np.uint8))[:, None]
    return Reading(images, meant, predict(model, images).argmax(1).tolist())
