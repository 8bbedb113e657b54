"""Four images of four classes in one: where each class lies is known."""

from typing import NamedTuple

import torch
from einops import rearrange, repeat
from jaxtyping import Bool, Int64, UInt8
from torch import Tensor

from vitbook.datasets.resizing import resize


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
        number: of collages.
        image_size: of a collage, in pixels; even.

    Raises:
        ValueError: more collages than the images of the classes fill.
    """
    generator = torch.Generator().manual_seed(seed)
    left = {
        each: (found := (labels == each).nonzero().flatten())[
            torch.randperm(len(found), generator=generator)
        ].tolist()
        for each in labels.unique().tolist()
    }
    drawn = []
    for made in range(number):
        luck = dict(zip(left, torch.rand(len(left), generator=generator).tolist(), strict=True))
        # The classes with the most images left go first, so that all last.
        fullest = sorted(left, key=lambda each: (-len(left[each]), luck[each]))[:4]
        if len(fullest) < 4 or not all(left[each] for each in fullest):
            raise ValueError(
                f"{number} collages: {len(labels)} images of {len(left)} classes fill {made}; "
                "ask for fewer, or give more images"
            )
        quarters = [left[each].pop() for each in fullest]
        order = torch.randperm(4, generator=generator).tolist()
        drawn.append([quarters[each] for each in order])
    sources = torch.tensor(drawn)
    shrunk = resize(images[sources.flatten()], image_size // 2)
    whole = rearrange(shrunk, "(n r c) channels h w -> n channels (r h) (c w)", r=2, c=2)
    return Collages(whole, labels[sources], sources)
