"""Canvases with one to five digits, and the boxes around them."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor
from torch.nn import functional as F

from vitbook import datasets
from vitbook.errors import check_count

SIDE = 40  # pixels
MOST, CLASSES = 5, 10
LARGEST = 2.0  # times the size that a digit comes in
COVERED = 0.1  # of the smaller of two boxes, at most
TRIES = 30


@dataclass(frozen=True)
class Objects:
    """What is to be found on one canvas.

    What comes is checked once, here.

    Attributes:
        boxes: "objects 4", centre x, centre y, width and height, in shares of the canvas.
        labels: "objects", what lies in each.

    Raises:
        ValueError: boxes of another shape, outside the canvas or without area; labels that are
            negative, or not one for each box.
    """

    boxes: Float[Tensor, "..."]
    labels: Int64[Tensor, "..."]

    def __post_init__(self):
        if self.boxes.ndim != 2 or self.boxes.shape[1] != 4:
            raise ValueError(
                f"boxes of shape {tuple(self.boxes.shape)}: expected (objects, 4), centre x, "
                "centre y, width and height"
            )
        if self.labels.shape != self.boxes.shape[:1]:
            raise ValueError(
                f"labels of shape {tuple(self.labels.shape)} for {len(self.boxes)} boxes: expected "
                "one for each"
            )
        if len(self.labels) and self.labels.min() < 0:
            raise ValueError(
                f"label {self.labels.min()}: expected 0 or more; leave out what is no object"
            )
        for box in self.boxes.tolist():
            told = ", ".join(f"{number:.3g}" for number in box)
            if not (box[2] > 0 and box[3] > 0):
                raise ValueError(
                    f"box ({told}) has no area: expected a width and a height above 0, in shares "
                    "of the canvas"
                )
            ends = [box[axis] + way * box[axis + 2] / 2 for axis in (0, 1) for way in (-1, 1)]
            if not all(-1e-4 <= end <= 1 + 1e-4 for end in ends):
                raise ValueError(
                    f"box ({told}) reaches beyond the canvas: expected centre x, centre y, width "
                    "and height in shares of it; divide pixels by its sides, or cut the box"
                )

    def __len__(self) -> int:
        return len(self.labels)


def check_objects(objects: list[Objects], num_queries: int, num_classes: int) -> None:
    """Refuse what a detector cannot answer.

    Raises:
        ValueError: more objects on a canvas than queries, or a label beyond the classes.
    """
    most = max(map(len, objects), default=0)
    if most > num_queries:
        raise ValueError(
            f"{most} objects on a canvas and {num_queries} queries, each of which finds one: "
            f"expected at most {num_queries}; build the detector with more queries"
        )
    highest = max((int(each.labels.max()) for each in objects if len(each)), default=0)
    if highest >= num_classes:
        raise ValueError(
            f"label {highest}: expected 0 to {num_classes - 1} for {num_classes} classes; the "
            "number behind them means no object"
        )


@dataclass(frozen=True)
class Canvases:
    """Images, and what is to be found on each.

    Attributes:
        images: "n 1 height width", uint8 from 0 to 255.
        objects: of each image, in the order drawn, which is random.
    """

    images: UInt8[Tensor, "n 1 height width"]
    objects: list[Objects]

    def __len__(self) -> int:
        return len(self.images)

    def with_at_most(self, most: int) -> "Canvases":
        """Those with so many objects, or fewer."""
        kept = [place for place, each in enumerate(self.objects) if len(each) <= most]
        return Canvases(self.images[kept], [self.objects[place] for place in kept])


def make_canvases(split: str, number: int, seed: int = 0) -> Canvases:
    """Digits of scikit-learn on canvases of 40 x 40 pixels, 1 to 5 of them, evenly often.

    A digit is cut to its ink, made 1 to 2 times as large and put at a random place, where it
    covers at most a tenth of another one's box, or is covered so; its box is the cut's. A digit
    that finds no place in 30 tries is left out. Where two meet the lighter pixel counts.

    Args:
        split: "train" or "test", as of ``datasets.load("digits", split)``: no digit is in both.
        seed: decides the canvases, together with the split.
    """
    check_count("number", number)
    digits = datasets.load("digits", split)
    inks = [_ink(image[0]) for image in digits.images]
    dice = np.random.default_rng([seed, len(digits)])
    images, objects = np.zeros((number, 1, SIDE, SIDE), np.uint8), []
    for canvas in images[:, 0]:
        boxes, labels = [], []
        for _ in range(dice.integers(1, MOST + 1)):
            which = int(dice.integers(len(digits)))
            patch = _enlarged(inks[which], dice.uniform(1, LARGEST))
            box = _free_place(patch.shape, boxes, dice)
            if box is None:
                continue
            left, top, right, bottom = box
            place = canvas[top:bottom, left:right]
            np.maximum(place, patch, out=place)
            boxes.append(box)
            labels.append(int(digits.labels[which]))
        objects.append(Objects(_shares(boxes), torch.tensor(labels)))
    return Canvases(torch.from_numpy(images), objects)


def _ink(digit: UInt8[Tensor, "height width"]) -> Float[Tensor, "rows columns"]:
    rows, columns = (digit.any(dim=axis).nonzero().flatten() for axis in (1, 0))
    return digit[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].float()


def _enlarged(ink: Float[Tensor, "rows columns"], times: float) -> np.ndarray:
    size = [round(side * times) for side in ink.shape]
    grown = F.interpolate(ink[None, None], size=size, mode="bilinear", align_corners=False)
    return grown[0, 0].round().to(torch.uint8).numpy()


def _free_place(size: tuple, boxes: list, dice: np.random.Generator) -> tuple | None:
    """Left, top, right and bottom, in pixels, where no other box is covered by much."""
    height, width = size
    for _ in range(TRIES):
        left, top = (int(dice.integers(SIDE - side + 1)) for side in (width, height))
        box = (left, top, left + width, top + height)
        if all(_covered(box, other) <= COVERED for other in boxes):
            return box
    return None


def _covered(one: tuple, other: tuple) -> float:
    """What two boxes share, as a share of the smaller one."""
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    areas = ((box[2] - box[0]) * (box[3] - box[1]) for box in (one, other))
    return max(wide, 0) * max(high, 0) / min(areas)


def _shares(boxes: list) -> Float[Tensor, "objects 4"]:
    left, top, right, bottom = torch.tensor(boxes, dtype=torch.float32).view(-1, 4).unbind(1)
    return torch.stack([left + right, top + bottom, 2 * (right - left), 2 * (bottom - top)], 1) / (
        2 * SIDE
    )
