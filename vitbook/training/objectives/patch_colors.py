"""The mean colours of patches in eight steps a channel: what masked patch prediction predicts."""

from collections.abc import Sequence

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
    sides = (patch_size, patch_size) if is_whole_number(patch_size) else tuple(patch_size)
    for side in sides:
        check_count("patch size", side)
    height, width = sides
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
    """The class of the mean colour of each patch, of images as in :func:`mean_colors`."""
    return _classes(mean_colors(images, patch_size))  # which no GPU has to be waited for


def _classes(colors: Tensor) -> Int64[Tensor, "*patches"]:
    weights = LEVELS ** torch.arange(colors.shape[-1] - 1, -1, -1, device=colors.device)
    return ((colors / STEP).floor().long() * weights).sum(dim=-1)
