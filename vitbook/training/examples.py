"""What can be learned from: features, and a class for each."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

WHOLE = (torch.int64, torch.int32, torch.int16, torch.uint8)


def count_classes(labels: Int64[Tensor, "n"], num_classes: int | None = None) -> int:
    """The given number of classes, or as many as the largest label tells.

    Raises:
        TypeError: labels that are no whole numbers.
        ValueError: no labels, more than one axis, one outside the classes, or fewer than two
            classes.
    """
    if labels.dtype not in WHOLE:
        kind = str(labels.dtype).removeprefix("torch.")
        raise TypeError(f"labels are {kind}: expected whole numbers, labels.long()")
    if labels.ndim != 1 or not len(labels):
        raise ValueError(
            f"labels of shape {tuple(labels.shape)}: expected one an image, one or more"
        )
    low, high = int(labels.min()), int(labels.max())
    number = high + 1 if num_classes is None else num_classes
    if low < 0 or high >= number or number < 2:
        raise ValueError(
            f"labels from {low} to {high} for {number} classes: expected 2 classes or more, "
            "counted from 0"
        )
    return number


def check_examples(
    features: Float[Tensor, "n features"],
    labels: Int64[Tensor, "n"],
    num_classes: int | None = None,
) -> int:
    """The number of classes, as :func:`count_classes` tells it.

    Raises:
        TypeError, ValueError: labels that :func:`count_classes` refuses.
        ValueError: no features, not one label for each row, or features that are NaN or infinite.
    """
    number = count_classes(labels, num_classes)
    if features.ndim != 2 or not features.numel() or len(features) != len(labels):
        raise ValueError(
            f"features of shape {tuple(features.shape)} with {len(labels)} labels: expected "
            "(images, features), one label an image"
        )
    if not features.isfinite().all():
        raise ValueError("the features hold NaN or infinity: look for it in images or weights")
    return number
