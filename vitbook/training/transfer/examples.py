"""What can be learned from: features, and a class for each."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from vitbook.errors import is_whole_number

# Squares of larger ones, summed over a few thousand, are no float32.
LARGEST = 1e15
WHOLE = (torch.int64, torch.int32, torch.int16, torch.uint8)


def count_classes(labels: Int64[Tensor, "n"], num_classes: int | None = None) -> int:
    """The given number of classes, or as many as the largest label tells.

    Raises:
        TypeError: labels, or a number of classes, that are no whole numbers.
        ValueError: no labels, more than one axis, one outside the classes, or fewer than two
            classes.
    """
    if not isinstance(labels, Tensor):
        raise TypeError(
            f"labels are {type(labels).__name__}: expected a tensor, torch.as_tensor(labels)"
        )
    if labels.dtype not in WHOLE:
        kind = str(labels.dtype).removeprefix("torch.")
        raise TypeError(f"labels are {kind}: expected whole numbers, labels.long()")
    if not is_whole_number(2 if num_classes is None else num_classes):
        raise TypeError(f"{num_classes!r} classes: expected a whole number")
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


@torch.no_grad()
def check_examples(
    features: Float[Tensor, "n features"],
    labels: Int64[Tensor, "n"],
    num_classes: int | None = None,
) -> int:
    """The number of classes, as :func:`count_classes` tells it.

    Raises:
        TypeError, ValueError: labels that :func:`count_classes` refuses.
        TypeError: features that are no tensor, or complex.
        ValueError: no features, not one label for each row, features that are on another device
            than the labels, NaN, infinite, or so large that their squares are.
    """
    number = count_classes(labels, num_classes)
    if not isinstance(features, Tensor) or features.is_complex():
        kind = features.dtype if isinstance(features, Tensor) else type(features).__name__
        raise TypeError(f"features are {kind}: expected a tensor of real numbers")
    if features.ndim != 2 or not features.numel() or len(features) != len(labels):
        raise ValueError(
            f"features of shape {tuple(features.shape)} with {len(labels)} labels: expected "
            "(images, features), one label an image"
        )
    if features.device != labels.device:
        raise ValueError(
            f"features on {features.device} with labels on {labels.device}: expected one device, "
            "labels.to(features.device)"
        )
    check_finite(features, "features")
    if (largest := max(float(features.max()), -float(features.min()))) > LARGEST:
        raise ValueError(
            f"the features reach {largest:.0e}: expected {LARGEST:.0e} at most; divide them all by "
            "one number"
        )
    return number


def check_finite(numbers: Tensor, what: str) -> None:
    """Refuse what has no largest.

    Raises:
        ValueError: NaN or infinity among them.
    """
    if not numbers.isfinite().all():
        raise ValueError(f"the {what} hold NaN or infinity: look for it in images or weights")
