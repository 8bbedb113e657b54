"""1,797 handwritten digits that come inside scikit-learn: real images with no download."""

from functools import cache

import numpy as np
import torch
from einops import rearrange

from vitbook.datasets.dataset import Dataset
from vitbook.extras import from_extra


def load_digits(split: str) -> Dataset:
    """The test part of the UCI set "Optical recognition of handwritten digits" (Alpaydin 1998).

    8 x 8 pixels of 17 grey levels, stretched to 0..255. The set has no split of its own: of each
    class, in the set's order, every fifth digit is held out. Writers are not told apart, so the
    same hand appears on both sides.

    Raises:
        MissingPackageError: scikit-learn is not installed.
    """
    images, labels = _source()
    turn = np.empty(len(labels), dtype=int)  # a digit's place among those of its class
    for label in range(10):
        turn[labels == label] = np.arange((labels == label).sum())
    chosen = (turn % 5 == 4) == (split == "test")
    pixels = np.rint(images[chosen] * 255 / 16).astype(np.uint8)
    return Dataset(
        images=rearrange(torch.from_numpy(pixels), "n h w -> n 1 h w"),
        labels=torch.from_numpy(labels[chosen]).long(),
        class_names=tuple(str(digit) for digit in range(10)),
        provenance={
            "name": "digits",
            "split": split,
            "source": "scikit-learn load_digits (UCI Optical Recognition of Handwritten Digits)",
            "rule": "every fifth digit of a class is held out",
        },
    )


@cache  # scikit-learn parses a text of 115,000 numbers
def _source() -> tuple[np.ndarray, np.ndarray]:
    """Grey levels and labels of all digits, as they come; to be copied, never changed."""
    with from_extra("data"):
        from sklearn.datasets import load_digits as load_from_scikit_learn

    source = load_from_scikit_learn()
    return source.images, source.target
