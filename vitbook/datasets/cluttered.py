"""Images on a canvas among pieces of others: of each it is known where its answer lies."""

from dataclasses import dataclass

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Bool
from torch import Tensor

from vitbook.datasets.dataset import Dataset
from vitbook.errors import UnknownNameError, check_count

CANVAS = 32  # pixels a side
NUM_PIECES = 8
SEEDS = {"train": 0, "test": 1}


@dataclass(frozen=True)
class Clutter:
    """What is planted on the canvases.

    Attributes:
        of: the data set of the images.
        side: pixels a side of an image on the canvas.
        piece: pixels a side of a piece of another image.
        copies: split -> canvases of each image.
    """

    of: str
    side: int
    piece: int
    copies: dict[str, int]

    @property
    def places(self) -> int:
        """Along one side of the canvas, of an image."""
        return CANVAS - self.side + 1


CLUTTERED = {
    "cluttered_digits": Clutter("digits", 8, 4, {"train": 10, "test": 1}),
    "cluttered_cifar10": Clutter("cifar10", 16, 8, {"train": 1, "test": 1}),
}


def source_of(name: str) -> str:
    """The data set that a set is made from; most are their own."""
    return CLUTTERED[name].of if name in CLUTTERED else name


def scatter(name: str, split: str, source: Dataset) -> Dataset:
    """Each image somewhere on a canvas of 32 x 32 pixels, among eight pieces of other images.

    After the cluttered MNIST of Mnih et al. 2014 ("Recurrent models of visual attention"), whose
    pieces are 8 x 8 pixels of digits of 28 x 28. Here a piece may overlap another piece, but not
    the image, and it is drawn without regard to the label: what a canvas says of its label it says
    inside :func:`answer_masks`. Chance is the stream of PCG64, which is the same on every machine.

    Args:
        name: of :data:`CLUTTERED`.
        split: of ``source``, whose images have the size that the set gives them.
    """
    clutter = CLUTTERED[name]
    own = np.arange(len(source)).repeat(clutter.copies[split])
    draws = _draws(split, len(own))
    sources = rearrange(source.images.numpy(), "n c h w -> n h w c")
    tops, lefts = _places(draws, clutter)
    canvas = np.zeros((len(own), CANVAS, CANVAS, sources.shape[-1]), np.uint8)
    free = _free_places(tops, lefts, clutter)
    every, inside = np.arange(len(own)), clutter.side - clutter.piece + 1
    for other, top, left, place in rearrange(draws[:, 2:], "n (pieces of) -> pieces of n", of=4):
        others = (own + 1 + other % (len(sources) - 1)) % len(sources)  # any image but its own
        pieces = sources[_squares(others, top % inside, left % inside, clutter.piece)]
        where = _squares(every, *_nth_free(free, place, clutter), clutter.piece)
        canvas[where] = np.maximum(canvas[where], pieces)
    canvas[_squares(every, tops, lefts, clutter.side)] = sources[own]
    return Dataset(
        images=rearrange(torch.from_numpy(canvas), "n h w c -> n c h w").contiguous(),
        labels=source.labels[torch.from_numpy(own)],
        class_names=source.class_names,
        provenance=_provenance(name, split, source),
    )


def answer_masks(name: str, split: str, number: int) -> Bool[Tensor, "{number} height width"]:
    """Where the answer of each image lies: a square, the whole planted image.

    Args:
        name: "cluttered_digits" or "cluttered_cifar10", as it was given to ``load``.
        split: "train" or "test", likewise.
        number: of the first images of the split, ``len(load(name, split))`` for all.

    Raises:
        UnknownNameError: another set or split.
        ValueError: no number of images.

    Example:
        >>> from vitbook.datasets import answer_masks
        >>> answer_masks("cluttered_digits", "test", 355).sum((1, 2)).unique()
        tensor([64])
    """
    if name not in CLUTTERED:
        raise UnknownNameError("data set whose answers have a place", name, CLUTTERED)
    if split not in SEEDS:
        raise UnknownNameError(f"split of {name}", split, SEEDS)
    check_count("number", number)
    masks = np.zeros((number, CANVAS, CANVAS), bool)
    places = _places(_draws(split, number), CLUTTERED[name])
    masks[_squares(np.arange(number), *places, CLUTTERED[name].side)] = True
    return torch.from_numpy(masks)


def _provenance(name: str, split: str, source: Dataset) -> dict[str, str | int]:
    """Its name says, as that of the source does, where the pictures are not the official ones."""
    clutter, about = CLUTTERED[name], dict(source.provenance)
    if "digest" in about:
        about["source_digest"] = about.pop("digest")  # it is of other pictures
    own = about["name"] == clutter.of
    return about | {
        "name": name if own else f"{about['name']}, cluttered",
        "rule": f"{about['rule']}; {clutter.copies[split]} images of each, at a random place of "
        f"{CANVAS}x{CANVAS} px among {NUM_PIECES} pieces of {clutter.piece}x{clutter.piece} px of "
        f"other {clutter.of} of the split, PCG64({SEEDS[split]})",
    }


def _draws(split: str, number: int) -> np.ndarray:
    """Two numbers for an image's place, four for each piece: whose, its place there and here."""
    shape = (number, 2 + 4 * NUM_PIECES)
    raw = np.random.PCG64(SEEDS[split]).random_raw(shape[0] * shape[1])
    return (raw >> 11).astype(np.int64).reshape(shape)


def _places(draws: np.ndarray, clutter: Clutter) -> tuple[np.ndarray, np.ndarray]:
    return tuple(draws[:, axis] % clutter.places for axis in (0, 1))


def _squares(which: np.ndarray, tops: np.ndarray, lefts: np.ndarray, side: int) -> tuple:
    """The index of a square of each image."""
    steps = np.arange(side)
    return (
        which[:, None, None],
        tops[:, None, None] + steps[:, None],
        lefts[:, None, None] + steps,
    )


def _free_places(tops: np.ndarray, lefts: np.ndarray, clutter: Clutter) -> np.ndarray:
    """Of each image the number of free places up to each place of a piece, row by row."""
    place = np.arange(CANVAS - clutter.piece + 1)

    def meets(start: np.ndarray) -> np.ndarray:
        return (place > start[:, None] - clutter.piece) & (place < start[:, None] + clutter.side)

    taken = meets(tops)[:, :, None] & meets(lefts)[:, None, :]
    return rearrange(~taken, "n rows columns -> n (rows columns)").cumsum(1, dtype=np.int16)


def _nth_free(
    free: np.ndarray, draw: np.ndarray, clutter: Clutter
) -> tuple[np.ndarray, np.ndarray]:
    place = (free <= (draw % free[:, -1])[:, None]).sum(1)
    return np.divmod(place, CANVAS - clutter.piece + 1)
