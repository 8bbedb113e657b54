"""The mean colours of patches in eight steps a channel: what masked patch prediction predicts."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from einops import rearrange
from jaxtyping import Float, Int64, UInt8
from torch import Tensor

from vitbook.errors import check_count, is_whole_number

LEVELS = 8  # 3 bits
STEP = 256 // LEVELS


def mean_colors(
    images: Tensor, patch_size: int | Sequence[int]
) -> Float[Tensor, "batch patches channels"]:
    """Mean of each channel over the pixels of each patch, 0 to 255; patches row by row.

    Args:
        images: "batch channels height width", uint8, as a data set holds them. What a model takes
            is made bytes by :func:`to_bytes`.
        patch_size: in pixels; one number, or (height, width).

    Raises:
        TypeError: images that are not uint8.
        ValueError: images of another rank, or a patch that does not divide them.
    """
    if images.dtype != torch.uint8:
        raise TypeError(
            f"images are {str(images.dtype).removeprefix('torch.')}: expected uint8, 0 to 255; "
            "to_bytes(images) makes it from images that are normalised"
        )
    if images.ndim != 4:
        raise ValueError(
            f"images of shape {tuple(images.shape)}: expected (batch, channels, height, width)"
        )
    height, width = _pair(patch_size)
    if images.shape[2] % height or images.shape[3] % width:
        raise ValueError(
            f"patch {height}x{width} does not divide image {images.shape[2]}x{images.shape[3]}: "
            "take a patch size that divides both sides, or crop the images"
        )
    pixels = rearrange(
        images, "b c (rows p) (columns q) -> b (rows columns) c (p q)", p=height, q=width
    )
    # Whole numbers, so that a mean of exactly 32 is not a little less.
    return pixels.sum(dim=-1, dtype=torch.int64) / pixels.shape[-1]


def to_bytes(
    images: Float[Tensor, "*batch channels height width"],
) -> UInt8[Tensor, "*batch channels height width"]:
    """The uint8 images that :func:`vitbook.datasets.normalize` would make these of, rounded.

    Raises:
        ValueError: images that reach beyond -1 to 1, or hold NaN; or none.
    """
    if not images.numel():
        raise ValueError("no images: expected one at least")
    low, high = images.aminmax()
    if not ((low >= -1.001) & (high <= 1.001)):  # asked once: a GPU is waited for
        raise ValueError(
            f"images range from {low:g} to {high:g}: expected -1 to 1, as "
            "vitbook.datasets.normalize gives them, for their colours to be known"
        )
    return ((images.float() + 1) * 127.5).round().clamp(0, 255).to(torch.uint8)


def color_classes(
    colors: Float[Tensor, "*patches channels"],
) -> Int64[Tensor, "*patches"]:
    r"""The class of each colour at 3 bits a channel: 512 for red, green and blue, 8 for grey.

    .. math::
        64 \lfloor r / 32 \rfloor + 8 \lfloor g / 32 \rfloor + \lfloor b / 32 \rfloor

    Args:
        colors: each channel from 0 to 255, the first one weighs most.

    Raises:
        ValueError: a colour outside 0 to 255, or NaN.
    """
    low, high = colors.aminmax()
    if not (low >= 0 and high <= 255):
        raise ValueError(f"colours range from {low:g} to {high:g}: expected 0 to 255 a channel")
    return _classes(colors)


def patch_classes(
    images: Tensor, patch_size: int | Sequence[int]
) -> Int64[Tensor, "batch patches"]:
    """The class of the mean colour of each patch, see :func:`color_classes`.

    Args:
        images: as in :func:`mean_colors`.
        patch_size: likewise.

    Raises:
        TypeError, ValueError: as :func:`mean_colors`.
    """
    return _classes(mean_colors(images, patch_size))


def class_colors(
    classes: Int64[Tensor, "*patches"], channels: int = 3
) -> UInt8[Tensor, "*patches channels"]:
    """The colour in the middle of each class, to draw it: 16, 48, ... or 240 in each channel.

    Raises:
        ValueError: a class that is none of so many channels.

    Example:
        >>> import torch
        >>> from vitbook.training.objectives.patch_colors import class_colors, color_classes
        >>> color = torch.tensor([255.0, 100.0, 0.0])
        >>> color_classes(color), class_colors(color_classes(color))
        (tensor(472), tensor([240, 112,  16], dtype=torch.uint8))
    """
    known, (low, high) = num_color_classes(channels), classes.aminmax()
    if not 0 <= low <= high < known:
        raise ValueError(
            f"classes from {low} to {high}: expected 0 to {known - 1} for {channels} channels"
        )
    levels = classes[..., None] // _weights(channels, classes.device) % LEVELS
    return (levels * STEP + STEP // 2).to(torch.uint8)


def num_color_classes(channels: int) -> int:
    """8 to the power of the channels.

    Raises:
        ValueError: no whole number of channels, 1 or more.
    """
    check_count("channels", channels)
    return LEVELS**channels


class CommonestColor(NamedTuple):
    """What is reached without looking at an image.

    Attributes:
        color: class of the colour that is commonest in the training images.
        accuracy: share of the held-out patches that have it, 0 to 1.
        cross_entropy: in nats, of the training frequencies as an answer for every held-out patch.
    """

    color: int
    accuracy: float
    cross_entropy: float


def commonest_color(
    training: Int64[Tensor, "*patches"], held_out: Int64[Tensor, "*others"], num_classes: int
) -> CommonestColor:
    """The null of masked patch prediction: the same answer for every patch.

    Each training count is one higher than it is (Laplace), since a colour that only held-out
    patches have would cost infinitely much. Of colours that are equally common the first is taken.

    Args:
        training: classes of patches to count.
        held_out: classes of patches to be scored on.
        num_classes: as :func:`num_color_classes` says.

    Raises:
        ValueError: no patches, or a class that is none of so many.

    Example:
        >>> import torch
        >>> from vitbook.training.objectives.patch_colors import commonest_color
        >>> null = commonest_color(torch.tensor([0, 0, 3]), torch.tensor([0, 1]), num_classes=8)
        >>> null.color, null.accuracy, round(null.cross_entropy, 3)
        (0, 0.5, 1.849)
    """
    for name, classes in (("training", training), ("held-out", held_out)):
        if not classes.numel():
            raise ValueError(f"no {name} patches: expected one at least")
        if not 0 <= classes.min() <= classes.max() < num_classes:
            raise ValueError(
                f"{name} classes from {classes.min()} to {classes.max()}: expected 0 to "
                f"{num_classes - 1}"
            )
    counts = training.flatten().bincount(minlength=num_classes).cpu() + 1
    shares = counts.double() / counts.sum()
    color = int(counts.argmax())
    held_out = held_out.flatten().cpu()
    return CommonestColor(
        color,
        float((held_out == color).double().mean()),
        float(-shares.log()[held_out].mean()),
    )


def _classes(colors: Tensor) -> Int64[Tensor, "*patches"]:
    levels = (colors / STEP).floor().long()
    return (levels * _weights(colors.shape[-1], colors.device)).sum(dim=-1)


def _weights(channels: int, device: torch.device) -> Int64[Tensor, "channels"]:
    return LEVELS ** torch.arange(channels - 1, -1, -1, device=device)


def _pair(patch_size: int | Sequence[int]) -> tuple[int, int]:
    sides = (patch_size, patch_size) if is_whole_number(patch_size) else tuple(patch_size)
    if len(sides) != 2:
        raise ValueError(f"patch size {patch_size!r}: expected a whole number or a pair of them")
    for side in sides:
        check_count("patch size", side)
    return sides
