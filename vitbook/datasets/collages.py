"""Four images of four classes in one: where each class lies is known."""

from typing import NamedTuple

import torch
from einops import rearrange, repeat
from jaxtyping import Bool, Int64, UInt8
from torch import Tensor

from vitbook.datasets.resizing import resize
from vitbook.errors import is_whole_number


class Collages(NamedTuple):
    """Two by two images each, and what can be asked about them.

    Attributes:
        images: four quarters, read row by row.
        labels: the class of each quarter, four different ones.
        sources: the image in each quarter, by its place in what was given.
    """

    images: UInt8[Tensor, "n channels height width"]
    labels: Int64[Tensor, "n quarters"]
    sources: Int64[Tensor, "n quarters"]

    @property
    def masks(self) -> Bool[Tensor, "quarters height width"]:
        """Where each quarter lies, the same in all collages."""
        height, width = self.images.shape[-2:]
        return repeat(
            torch.eye(4, dtype=torch.bool), "quarter (r c) -> quarter (r h) (c w)",
            r=2, h=height // 2, w=width // 2,
        )  # fmt: skip


def make_collages(
    images: UInt8[Tensor, "n channels height width"],
    labels: Int64[Tensor, "n"],
    number: int,
    *,
    image_size: int = 224,
    seed: int = 0,
) -> Collages:
    """Collages of four images of four classes, each image in one of them at most.

    The grid pointing game of Böhle et al. 2021, "Convolutional dynamic alignment networks", and
    Rao et al. 2022, "Towards better understanding attribution methods", with two by two images.

    Args:
        images: of any size; each is resized to half of ``image_size``.
        labels: of any numbers.
        number: of collages.
        image_size: of a collage, in pixels; even.

    Raises:
        ValueError: an odd size; fewer collages than one; fewer than four classes; more collages
            than the images of the classes fill.

    Example:
        >>> from vitbook.datasets import load, make_collages
        >>> digits = load("digits", "test")
        >>> collages = make_collages(digits.images, digits.labels, 2, image_size=16)
        >>> tuple(collages.images.shape), tuple(collages.labels.shape)
        ((2, 1, 16, 16), (2, 4))
    """
    if not is_whole_number(image_size) or image_size < 2 or image_size % 2:
        raise ValueError(f"collages of {image_size!r} px: expected an even number, two or more")
    sources = _draw(labels, number, torch.Generator().manual_seed(seed))
    quarters = resize(images[sources.flatten()], image_size // 2)
    whole = rearrange(quarters, "(n r c) channels h w -> n channels (r h) (c w)", r=2, c=2)
    return Collages(whole, labels[sources], sources)


def _draw(
    labels: Int64[Tensor, "n"], number: int, generator: torch.Generator
) -> Int64[Tensor, "number quarters"]:
    """Images by their places; the classes with the most images left go first, so that all last."""
    left = {
        each: (found := (labels == each).nonzero().flatten())[
            torch.randperm(len(found), generator=generator)
        ].tolist()
        for each in labels.unique().tolist()
    }
    if number < 1 or len(left) < 4:
        raise ValueError(
            f"{number} collages of {len(left)} classes: expected one collage or more, and four "
            "classes or more"
        )
    drawn = []
    for made in range(number):
        luck = dict(zip(left, torch.rand(len(left), generator=generator).tolist(), strict=True))
        fullest = sorted(left, key=lambda each: (-len(left[each]), luck[each]))[:4]
        if not all(left[each] for each in fullest):
            raise ValueError(
                f"{number} collages: {len(labels)} images of {len(left)} classes fill {made}; "
                "ask for fewer, or give more images"
            )
        quarters = [left[each].pop() for each in fullest]
        order = torch.randperm(4, generator=generator).tolist()
        drawn.append([quarters[each] for each in order])
    return torch.tensor(drawn)
