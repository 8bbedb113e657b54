"""What every data set looks like to the rest of the library."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor


class DatasetError(ValueError):
    """Files of a data set that are not what they must be: which one, and what to do."""


@dataclass(frozen=True)
class Dataset:
    """Images and labels in memory.

    Attributes:
        images: "n channels height width", uint8 from 0 to 255.
        labels: "n", int64, each an index into ``class_names``.
        class_names: one for each class.
        provenance: where the images come from and what was done to them.

    Raises:
        TypeError: images that are not uint8.
        ValueError: labels out of range, or not one for each image.
    """

    images: UInt8[Tensor, "n channels height width"]
    labels: Int64[Tensor, "n"]
    class_names: tuple[str, ...]
    provenance: dict[str, str | int]

    def __post_init__(self):
        if self.images.dtype != torch.uint8:
            raise TypeError(
                f"images are {str(self.images.dtype).removeprefix('torch.')}: expected uint8 from "
                "0 to 255; for floats between 0 and 1 use (images * 255).round().to(torch.uint8)"
            )
        if len(self.labels) != len(self.images):
            raise ValueError(
                f"{len(self.labels)} labels for {len(self.images)} images: expected one for each"
            )
        if len(self.labels) and not 0 <= self.labels.min() <= self.labels.max() < self.num_classes:
            raise ValueError(
                f"labels from {self.labels.min()} to {self.labels.max()}: expected 0 to "
                f"{self.num_classes - 1} for {self.num_classes} class names; labels count from 0"
            )

    def __len__(self) -> int:
        return len(self.images)

    @property
    def num_classes(self) -> int:
        return len(self.class_names)


def normalize(images: Tensor) -> Float[Tensor, "*batch channels height width"]:
    """uint8 images as a model takes them: float32 between -1 and 1.

    One convention for all models of the book, that of the ViT authors: (x / 255 - 0.5) / 0.5.
    Floats between 0 and 1 are taken too.

    Raises:
        ValueError: floats outside 0 to 1, as from an image that was never divided by 255.
        TypeError: whole numbers other than uint8.

    Example:
        >>> import torch
        >>> from vitbook.datasets import normalize
        >>> normalize(torch.tensor([0, 51, 255], dtype=torch.uint8).view(1, 1, 1, 3)).flatten()
        tensor([-1.0000, -0.6000,  1.0000])
    """
    if images.dtype == torch.uint8:
        return images.float() / 127.5 - 1
    if not images.is_floating_point():
        raise TypeError(
            f"images are {str(images.dtype).removeprefix('torch.')}: expected uint8, or floating "
            "point between 0 and 1"
        )
    low, high = float(images.min()), float(images.max())
    if not (low >= 0 and high <= 1):
        advice = "divide by 255" if high > 2 else "they may be normalised already"
        raise ValueError(
            f"images range from {low:g} to {high:g}: expected uint8, or floating point between "
            f"0 and 1; {advice}"
        )
    return images * 2 - 1
