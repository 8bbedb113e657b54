"""What every data set looks like to the rest of the library."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor


class DatasetError(ValueError):
    """Files of a data set that are not what they must be: which one, and what to do."""


@dataclass(frozen=True)
class Dataset:
    """Images and labels in memory.

    What comes is checked once, here.

    Attributes:
        images: "n channels height width", uint8 from 0 to 255.
        labels: "n", int64, each an index into ``class_names``; whole numbers of any kind, also of
            a list or of numpy, become that.
        class_names: one for each class, no two alike; a list becomes a tuple.
        provenance: where the images come from and what was done to them.

    Raises:
        TypeError: images that are not uint8, labels that are no whole numbers, names that are none.
        ValueError: images or labels of another shape, labels out of range, or not one for each
            image; no class names, an empty one, or one that is there twice.
    """

    images: UInt8[Tensor, "n channels height width"]
    labels: Int64[Tensor, "n"]
    class_names: tuple[str, ...]
    provenance: dict[str, str | int]

    def __post_init__(self):
        _check_images(self.images)
        object.__setattr__(self, "labels", _as_labels(self.labels))
        object.__setattr__(self, "class_names", check_class_names(self.class_names))
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


def _check_images(images: Tensor) -> None:
    if not isinstance(images, Tensor):
        raise TypeError(
            f"images are {type(images).__name__}: expected a tensor of uint8, torch.as_tensor"
        )
    if images.dtype != torch.uint8:
        raise TypeError(
            f"images are {str(images.dtype).removeprefix('torch.')}: expected uint8 from "
            "0 to 255; for floats between 0 and 1 use (images * 255).round().to(torch.uint8)"
        )
    if images.ndim != 4:
        raise ValueError(
            f"images of shape {tuple(images.shape)}: expected (images, channels, height, width); "
            "images.unsqueeze(1) gives grey ones their channel"
        )


def _as_labels(labels: object) -> Int64[Tensor, "n"]:
    """Whole numbers in a row as int64, which has room for all that the others hold."""
    if not isinstance(labels, Tensor):
        kind = type(labels).__name__
        try:
            labels = torch.as_tensor(labels) if len(labels) else torch.zeros(0).long()
        except (TypeError, ValueError, RuntimeError) as error:
            raise TypeError(
                f"labels are {kind} ({error}): expected whole numbers in a row, each an index into "
                "the class names"
            ) from error
    if labels.ndim != 1:
        advice = "labels.squeeze(1)" if labels.shape[1:] == (1,) else "labels.argmax(1) of one-hot"
        raise ValueError(
            f"labels of shape {tuple(labels.shape)}: expected one whole number an image; use "
            f"{advice}"
        )
    if labels.dtype == torch.bool or labels.is_floating_point() or labels.is_complex():
        raise TypeError(
            f"labels are {str(labels.dtype).removeprefix('torch.')}: expected whole numbers, each "
            "an index into the class names; labels.long(), if they are"
        )
    return labels.long()


def check_class_names(names: Sequence[str]) -> tuple[str, ...]:
    """Class names as a tuple.

    Raises:
        TypeError: no sequence of texts, or a text, whose letters would be taken for names.
        ValueError: none, an empty one, or one that two classes have.
    """
    if not isinstance(names, Sequence) or isinstance(names, str):
        raise TypeError(
            f"class names are {names!r:.40}: expected one text for each class, as ('cat', 'dog')"
        )
    names = tuple(names)
    for label, name in enumerate(names):
        if not isinstance(name, str):
            raise TypeError(f"the name of class {label} is {name!r}: expected a text, str(name)")
        if not name.strip():
            raise ValueError(f"the name of class {label} is empty: expected a text; name it")
    if not names:
        raise ValueError("no class names: expected one for each class")
    if len(set(names)) < len(names):
        again = next(name for label, name in enumerate(names) if name in names[:label])
        first, second = [label for label, name in enumerate(names) if name == again][:2]
        raise ValueError(
            f"classes {first} and {second} are both called {again!r}: expected a name of its own "
            "for each; join them, or rename one"
        )
    return names


def first_difference(names: Sequence[str], others: Sequence[str]) -> str:
    """Where two rows of class names part, in words; empty where they do not.

    Example:
        >>> from vitbook.datasets.dataset import first_difference
        >>> first_difference(("cat", "dog"), ("dog", "cat"))
        "class 0 is 'cat' in the one and 'dog' in the other"
    """
    for label, (name, other) in enumerate(zip_longest(names, others)):
        if name != other:
            told = (repr(each) if each is not None else "none" for each in (name, other))
            return f"class {label} is {' in the one and '.join(told)} in the other"
    return ""


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
