"""Small tasks of two kinds: what is in an image, and how it is arranged.

After VTAB (Zhai et al. 2019, "A large-scale study of representation learning with the visual task
adaptation benchmark"), which gives each of 19 tasks 1,000 images and divides them into natural,
specialised and structured ones. Here no specialised images (medical, from above) are at hand.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from einops import repeat
from jaxtyping import UInt8
from torch import Tensor

from vitbook.datasets import Dataset, answer_masks, load
from vitbook.datasets.cluttered import CLUTTERED
from vitbook.errors import UnknownNameError

CELLS = 4  # of the canvas, a side
TURNS = 8
# Of the side of a square, what stays filled however it is turned.
INSCRIBED = math.sqrt(0.5)


@dataclass(frozen=True)
class Task:
    """Images of an existing data set, and what is asked of them.

    Attributes:
        group: "natural" or "structured", as VTAB has them.
        asks: in a few words.
        dataset: where the images come from.
        make: called with images and labels of the data set and the rows that are wanted.
    """

    group: str
    asks: str
    dataset: str
    make: Callable[[Dataset, Tensor], Dataset]


def make_task(name: str, number: int) -> Dataset:
    """So many images of a task, drawn from the training part of its data set; always the same.

    Args:
        name: of :data:`TASKS`.
        number: of images; none twice.

    Raises:
        UnknownNameError: no such task.
        ValueError: more images than the data set has.
    """
    if name not in TASKS:
        raise UnknownNameError("task", name, TASKS)
    task = TASKS[name]
    whole = load(task.dataset, "train")
    if number > len(whole):
        raise ValueError(
            f"{number:,} images of {name}: {whole.provenance['name']} has {len(whole):,} to draw "
            "from; ask for fewer"
        )
    rows = torch.randperm(len(whole), generator=torch.Generator().manual_seed(0))[:number]
    made = task.make(whole, rows)
    rule = f"{number} of its training images, drawn; asked: {task.asks}"
    return replace(made, provenance=whole.provenance | {"name": name, "rule": rule})


def _as_they_are(whole: Dataset, rows: Tensor) -> Dataset:
    return replace(whole, images=whole.images[rows], labels=whole.labels[rows])


def _digit_place(whole: Dataset, rows: Tensor) -> Dataset:
    """The cell of the canvas in which a digit begins, among about as many places in each."""
    masks = answer_masks("cluttered_digits", "train", len(whole))[rows]
    # The first row and the first column that the mask reaches.
    top, left = (masks.any(dim=axis).int().argmax(dim=1) for axis in (2, 1))
    places = CLUTTERED["cluttered_digits"].places
    return replace(
        whole,
        images=repeat(whole.images[rows], "n 1 h w -> n c h w", c=3),
        labels=top * CELLS // places * CELLS + left * CELLS // places,
        class_names=tuple(
            f"row {cell // CELLS}, column {cell % CELLS}" for cell in range(CELLS**2)
        ),
    )


def _turned(whole: Dataset, rows: Tensor) -> Dataset:
    """Each image turned by one of eight angles, and the square cut out that has no empty corner.

    The angles lie between the right angles, 22.5 degrees and steps of 45: each is interpolated
    alike, so that no blur gives an angle away.
    """
    labels = torch.arange(len(rows)) % TURNS
    angles = (labels + 0.5) * 360 / TURNS
    return replace(
        whole,
        images=turned_squares(whole.images[rows], angles),
        labels=labels,
        class_names=tuple(f"{(each + 0.5) * 360 / TURNS:g} degrees" for each in range(TURNS)),
    )


def turned_squares(
    images: UInt8[Tensor, "n channels height width"], angles: Tensor
) -> UInt8[Tensor, "n channels side side"]:
    """The middle of each square image, turned anticlockwise: as much as no angle leaves empty.

    Args:
        angles: in degrees, one for each image.
    """
    side = images.shape[-1]
    inner = int(side * INSCRIBED)
    size = (len(images), images.shape[1], inner, inner)
    turn = torch.deg2rad(angles.float())
    cos, sin = turn.cos() * inner / side, turn.sin() * inner / side
    zero = torch.zeros_like(cos)
    rows = [torch.stack(row, dim=1) for row in ((cos, -sin, zero), (sin, cos, zero))]
    turned = []
    for some, matrices in zip(images.split(100), torch.stack(rows, 1).split(100), strict=True):
        grid = F.affine_grid(matrices, [len(some), *size[1:]], align_corners=False)
        found = F.grid_sample(some.float(), grid, "bilinear", "border", align_corners=False)
        turned.append(found.round().to(torch.uint8))
    return torch.cat(turned)


TASKS = {
    "cifar10": Task("natural", "which of ten kinds is it?", "cifar10", _as_they_are),
    "tf_flowers": Task("natural", "which of five flowers is it?", "tf_flowers", _as_they_are),
    "digit_place": Task(
        "structured", "in which of sixteen cells does the digit begin?", "cluttered_digits",
        _digit_place,
    ),
    "turned_flowers": Task(
        "structured", "by which of eight angles is the photo turned?", "tf_flowers", _turned
    ),
}  # fmt: skip
