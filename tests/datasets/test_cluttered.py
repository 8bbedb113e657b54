"""What is planted lies whole under its mask, among pieces of others of its split."""

import hashlib

import numpy as np
import pytest
import torch

from vitbook import datasets
from vitbook.datasets import Dataset, answer_masks
from vitbook.datasets.cluttered import CLUTTERED, scatter, source_of
from vitbook.errors import UnknownNameError

SPLITS = ("train", "test")
NAMES = tuple(CLUTTERED)


@pytest.fixture(scope="module")
def sources():
    """What is planted, by set and split: digits; and colours, where the photographs would be."""
    colours = torch.randint(1, 256, (40, 3, 16, 16), generator=torch.Generator().manual_seed(0))
    about = {"name": "CIFAR-10 (40 images)", "rule": "drawn", "digest": "sha256:0"}
    few = Dataset(colours.byte(), torch.arange(40) % 10, tuple("abcdefghij"), about)
    return {
        (name, split): datasets.load("digits", split) if name == "cluttered_digits" else few
        for name in NAMES
        for split in SPLITS
    }


def test_the_bits_are_the_same_everywhere():
    sums = {}
    for split in SPLITS:
        images = datasets.load("cluttered_digits", split).images
        sums[split] = hashlib.sha256(images.numpy().tobytes()).hexdigest()[:16]
    assert sums == {"train": "099339dc3393472d", "test": "df0ddeb361645034"}


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", NAMES)
def test_what_is_planted_lies_whole_under_its_mask(sources, name, split):
    source, side = sources[name, split], CLUTTERED[name].side
    found = scatter(name, split, source)
    masks = answer_masks(name, split, len(found))
    for axis in (1, 2):  # a square, and nothing else
        assert (masks.any(axis).sum(1) == side).all()
    assert (masks.sum((1, 2)) == side**2).all()
    copies = len(masks) // len(source)
    inside = torch.stack([image[:, m] for image, m in zip(found.images, masks, strict=True)])
    own = source.images.repeat_interleave(copies, 0)
    assert torch.equal(inside.view(own.shape), own)
    assert torch.equal(found.labels, source.labels.repeat_interleave(copies))
    assert torch.equal(answer_masks(name, split, 7), masks[:7])


def by_loops(name, split, source, number):
    """The first images, as one would say it aloud."""
    side, small, copies = CLUTTERED[name].side, CLUTTERED[name].piece, CLUTTERED[name].copies[split]
    pictures = source.images.numpy()
    stream = iter(np.random.PCG64(SPLITS.index(split)).random_raw(number * 34).tolist())
    canvases = np.zeros((number, pictures.shape[1], 32, 32), np.uint8)
    for index, canvas in enumerate(canvases):
        own, (top, left) = index // copies, (next(stream) // 2**11 % (33 - side) for _ in range(2))
        free = [
            (y, x)
            for y in range(33 - small)
            for x in range(33 - small)
            if y + small <= top or y >= top + side or x + small <= left or x >= left + side
        ]
        for _ in range(8):
            other, down, right, place = (next(stream) // 2**11 for _ in range(4))
            piece = pictures[(own + 1 + other % (len(pictures) - 1)) % len(pictures)]
            (y, x), down, right = (
                free[place % len(free)],
                *(each % (side - small + 1) for each in (down, right)),
            )
            square = canvas[:, y : y + small, x : x + small]
            square[:] = np.maximum(square, piece[:, down : down + small, right : right + small])
        canvas[:, top : top + side, left : left + side] = pictures[own]
    return torch.from_numpy(canvases)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", NAMES)
def test_pieces_of_others_of_the_split_lie_around_it(sources, name, split):
    source = sources[name, split]
    found = scatter(name, split, source).images[:40]
    assert torch.equal(found, by_loops(name, split, source, 40))


def test_its_name_says_what_it_is_made_of(sources):
    of_photos = scatter("cluttered_cifar10", "test", sources["cluttered_cifar10", "test"])
    assert of_photos.provenance["name"] == "CIFAR-10 (40 images), cluttered"
    assert "digest" not in of_photos.provenance  # of the pictures before
    assert "1 images of each" in of_photos.provenance["rule"]
    assert datasets.load("cluttered_digits", "test").provenance["name"] == "cluttered_digits"
    assert (source_of("cluttered_cifar10"), source_of("digits")) == ("cifar10", "digits")


def test_photographs_are_loaded_at_half_their_size(real_data, monkeypatch):
    monkeypatch.setenv("VITBOOK_DATA", str(real_data))
    small = datasets.load("cifar10", "test", image_size=16)
    planted = datasets.load("cluttered_cifar10", "test")
    masks = answer_masks("cluttered_cifar10", "test", 3)
    for index, mask in enumerate(masks):
        assert torch.equal(planted.images[index][:, mask], small.images[index].flatten(1)), (
            index
        )  # and not a corner of the photograph
    assert datasets.is_here("cluttered_cifar10")


def test_it_is_here_where_its_source_is(tmp_path, monkeypatch):
    monkeypatch.setenv("VITBOOK_DATA", str(tmp_path))
    assert datasets.is_here("cluttered_digits") and not datasets.is_here("cluttered_cifar10")


def test_sets_and_splits_that_are_not_there():
    with pytest.raises(UnknownNameError, match="split of cluttered_digits 'all'"):
        answer_masks("cluttered_digits", "all", 1)
    with pytest.raises(UnknownNameError, match="whose answers have a place 'digits'"):
        answer_masks("digits", "test", 1)
    with pytest.raises(ValueError, match="number -1: expected a whole number, 1 or more"):
        answer_masks("cluttered_digits", "test", -1)
