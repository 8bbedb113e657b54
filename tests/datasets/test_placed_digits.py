import hashlib

import pytest
import torch

from vitbook import datasets
from vitbook.datasets.embedded.placed_digits import PLACED_DIGITS


def pieces(images, side):
    """Of each image its squares, sorted: what is left when no place is known."""
    cut = images.unfold(2, side, side).unfold(3, side, side).flatten(1, 3).flatten(2).long()
    codes = (cut * 256 ** torch.arange(side * side)).sum(-1)
    return codes.sort(dim=1).values


@pytest.mark.parametrize("split", ("train", "test"))
@pytest.mark.parametrize("name", PLACED_DIGITS)
def test_each_digit_once_with_its_label(name, split):
    placed, digits = datasets.load(name, split), datasets.load("digits", split)
    assert placed.images.shape == (len(digits), 1, 12, 12)
    assert torch.equal(placed.labels, digits.labels)
    ink = [images.long().sum((1, 2, 3)) for images in (placed.images, digits.images)]
    assert torch.equal(*ink)
    assert placed.provenance["name"] == name


def test_a_digit_stays_in_the_middle_or_lies_at_one_of_25_places():
    digits = datasets.load("digits", "train").images
    centred = datasets.load("centred_digits", "train").images
    assert torch.equal(centred[..., 2:10, 2:10], digits)
    windows = datasets.load("moved_digits", "train").images.unfold(2, 8, 1).unfold(3, 8, 1)
    found = (windows == digits[:, :, None, None]).flatten(4).all(-1).flatten(1)
    assert found.any(1).all()
    # A digit with an empty margin fits at several places: those that fit at one alone.
    places = found[found.sum(1) == 1].int().argmax(1).bincount(minlength=25)
    assert places.min() > 0.5 * places.float().mean()


@pytest.mark.parametrize(
    "name, base, side",
    (
        ("centred_digits_shuffled", "centred_digits", 2),
        ("moved_digits_shuffled", "moved_digits", 2),
        ("moved_digits_scattered", "moved_digits", 1),
    ),
)
def test_all_images_have_their_pieces_in_one_other_order(name, base, side):
    sets = [[datasets.load(n, split).images for n in (base, name)] for split in ("train", "test")]
    for before, after in sets:
        assert not torch.equal(before, after)
        assert torch.equal(pieces(before, side), pieces(after, side))
    # One order for all: pixel by pixel, images of two splits are as far apart as before.
    apart = [torch.cdist(*(images.flatten(1).float() for images in each))
             for each in zip(*sets, strict=True)]  # fmt: skip
    assert torch.allclose(*apart, atol=0.5)


def test_the_bits_are_the_same_everywhere():
    sums = {
        name: hashlib.sha256(datasets.load(name, "test").images.numpy().tobytes()).hexdigest()[:8]
        for name in PLACED_DIGITS
    }
    assert sums == {
        "centred_digits": "3ec87ed0",
        "centred_digits_shuffled": "a0e346d8",
        "moved_digits": "c71d5d55",
        "moved_digits_shuffled": "05eb33f8",
        "moved_digits_scattered": "11a3e5a4",
    }
