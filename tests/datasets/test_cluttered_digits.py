import hashlib

import numpy as np
import pytest
import torch
from einops import rearrange

from vitbook import datasets
from vitbook.datasets import digit_masks
from vitbook.errors import UnknownNameError

SPLITS = ("train", "test")


@pytest.fixture(scope="module")
def cluttered():
    return {split: datasets.load("cluttered_digits", split) for split in SPLITS}


def inside(images, split):
    """The 8 x 8 pixels under the mask."""
    return rearrange(images[:, 0][digit_masks(split)], "(n h w) -> n h w", h=8, w=8)


def test_the_bits_are_the_same_everywhere(cluttered):
    sums = {
        split: hashlib.sha256(data.images.numpy().tobytes()).hexdigest()[:16]
        for split, data in cluttered.items()
    }
    assert sums == {"train": "099339dc3393472d", "test": "df0ddeb361645034"}


@pytest.mark.parametrize("split", SPLITS)
def test_the_digit_lies_whole_under_its_mask(cluttered, split):
    masks, digits = digit_masks(split), datasets.load("digits", split)
    for axis in (1, 2):  # a square of 8 x 8, and nothing else
        assert (masks.any(axis).sum(1) == 8).all()
    assert (masks.sum((1, 2)) == 64).all()
    copies = len(masks) // len(digits)
    own = digits.images[:, 0].repeat_interleave(copies, 0)
    assert torch.equal(inside(cluttered[split].images, split), own)
    assert torch.equal(cluttered[split].labels, digits.labels.repeat_interleave(copies))


def by_loops(split, number):
    """The first images, as one would say it aloud."""
    digits = datasets.load("digits", split).images[:, 0].numpy()
    copies = {"train": 10, "test": 1}[split]
    stream = iter(np.random.PCG64(SPLITS.index(split)).random_raw(number * 34).tolist())
    canvases = np.zeros((number, 32, 32), np.uint8)
    for index, canvas in enumerate(canvases):
        own, (top, left) = index // copies, (next(stream) // 2**11 % 25 for _ in range(2))
        free = [
            (y, x)
            for y in range(29)
            for x in range(29)
            if y + 4 <= top or y >= top + 8 or x + 4 <= left or x >= left + 8
        ]
        for _ in range(8):
            other, down, right, place = (next(stream) // 2**11 for _ in range(4))
            piece = digits[(own + 1 + other % (len(digits) - 1)) % len(digits)]
            (y, x), down, right = free[place % len(free)], down % 5, right % 5
            square = canvas[y : y + 4, x : x + 4]
            square[:] = np.maximum(square, piece[down : down + 4, right : right + 4])
        canvas[top : top + 8, left : left + 8] = digits[own]
    return torch.from_numpy(canvases)


@pytest.mark.parametrize("split", SPLITS)
def test_pieces_of_other_digits_of_the_split_lie_around_it(cluttered, split):
    assert torch.equal(cluttered[split].images[:40, 0], by_loops(split, 40))


def test_splits_that_are_not_there():
    with pytest.raises(UnknownNameError, match="split of cluttered_digits 'all'"):
        digit_masks("all")
