"""Digits among fragments of other digits: images of which it is known where the answer lies."""

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Bool
from torch import Tensor

from vitbook.datasets.dataset import Dataset
from vitbook.datasets.embedded.digits import load_digits
from vitbook.errors import UnknownNameError

CANVAS, DIGIT, FRAGMENT = 32, 8, 4  # pixels a side
NUM_FRAGMENTS = 8
COPIES = {"train": 10, "test": 1}  # images of each digit
SEEDS = {"train": 0, "test": 1}


def load_cluttered_digits(split: str) -> Dataset:
    """Each digit of :func:`load_digits`, at its own scale, somewhere on a canvas of 32 x 32
    pixels, among eight pieces of 4 x 4 pixels that are cut out of other digits.

    After the cluttered MNIST of Mnih et al. 2014 ("Recurrent models of visual attention"), whose
    pieces are 8 x 8 pixels of digits of 28 x 28. Here a piece may overlap another piece, but not
    the digit, and it is drawn without regard to the label: what an image says of its label it
    says inside :func:`digit_masks`.

    Digits and pieces of a split are those of the same split of ``digits``. Chance is the stream of
    PCG64, which is the same on every machine.
    """
    digits = load_digits(split)
    draws = _draws(split, len(digits))
    sources, own = digits.images[:, 0].numpy(), _own(split, len(digits))
    tops, lefts = _places(draws)
    canvas = np.zeros((len(own), CANVAS, CANVAS), np.uint8)
    free = _free_places(tops, lefts)
    every, inside = np.arange(len(own)), DIGIT - FRAGMENT + 1
    for other, top, left, place in rearrange(draws[:, 2:], "n (pieces of) -> pieces of n", of=4):
        others = (own + 1 + other % (len(sources) - 1)) % len(sources)  # any digit but its own
        pieces = sources[_squares(others, top % inside, left % inside, FRAGMENT)]
        where = _squares(every, *_nth_free(free, place), FRAGMENT)
        canvas[where] = np.maximum(canvas[where], pieces)
    canvas[_squares(every, tops, lefts, DIGIT)] = sources[own]
    return Dataset(
        images=rearrange(torch.from_numpy(canvas), "n h w -> n 1 h w"),
        labels=digits.labels[torch.from_numpy(own)],
        class_names=digits.class_names,
        provenance=digits.provenance
        | {
            "name": "cluttered_digits",
            "rule": f"{digits.provenance['rule']}; {COPIES[split]} images of each, at a random "
            f"place of {CANVAS}x{CANVAS} px among {NUM_FRAGMENTS} pieces of "
            f"{FRAGMENT}x{FRAGMENT} px of other digits of the split, PCG64({SEEDS[split]})",
        },
    )


def digit_masks(split: str) -> Bool[Tensor, "n height width"]:
    """Where the digit of each image lies: its 8 x 8 pixels, ink and paper.

    Args:
        split: "train" or "test", as it was given to ``load("cluttered_digits", split)``.

    Raises:
        UnknownNameError: another split.
    """
    if split not in COPIES:
        raise UnknownNameError("split of cluttered_digits", split, COPIES)
    number = len(load_digits(split))
    tops, lefts = _places(_draws(split, number))
    masks = np.zeros((len(tops), CANVAS, CANVAS), bool)
    masks[_squares(np.arange(len(tops)), tops, lefts, DIGIT)] = True
    return torch.from_numpy(masks)


def _own(split: str, number: int) -> np.ndarray:
    return np.arange(number).repeat(COPIES[split])


def _draws(split: str, number: int) -> np.ndarray:
    """Two numbers for the digit's place, four for each piece: whose, its place there and here."""
    shape = (number * COPIES[split], 2 + 4 * NUM_FRAGMENTS)
    raw = np.random.PCG64(SEEDS[split]).random_raw(shape[0] * shape[1])
    return (raw >> 11).astype(np.int64).reshape(shape)


def _places(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return tuple(draws[:, axis] % (CANVAS - DIGIT + 1) for axis in (0, 1))


def _squares(which: np.ndarray, tops: np.ndarray, lefts: np.ndarray, side: int) -> tuple:
    """The index of a square of each image."""
    steps = np.arange(side)
    return (
        which[:, None, None],
        tops[:, None, None] + steps[:, None],
        lefts[:, None, None] + steps,
    )


def _free_places(tops: np.ndarray, lefts: np.ndarray) -> np.ndarray:
    """Of each image the number of free places up to each place of a piece, row by row."""
    place = np.arange(CANVAS - FRAGMENT + 1)

    def meets(start: np.ndarray) -> np.ndarray:
        return (place > start[:, None] - FRAGMENT) & (place < start[:, None] + DIGIT)

    taken = meets(tops)[:, :, None] & meets(lefts)[:, None, :]
    return rearrange(~taken, "n rows columns -> n (rows columns)").cumsum(1, dtype=np.int16)


def _nth_free(free: np.ndarray, draw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    place = (free <= (draw % free[:, -1])[:, None]).sum(1)
    return np.divmod(place, CANVAS - FRAGMENT + 1)
