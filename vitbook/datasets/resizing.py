"""Pixels to pixels of another size."""

import torch
import torch.nn.functional as F
from jaxtyping import UInt8
from torch import Tensor

from vitbook.errors import is_whole_number


def resize(
    images: UInt8[Tensor, "n channels height width"], size: int
) -> UInt8[Tensor, "n channels {size} {size}"]:
    """The centre square of each image, bicubic with antialiasing; any number of channels.

    Raises:
        ValueError: a size that is no whole number above 0, or images without a pixel.
    """
    if not is_whole_number(size) or size < 1:
        raise ValueError(f"size {size!r}: expected a whole number of pixels, at least 1")
    side = min(images.shape[-2:])
    if side == 0:
        height, width = images.shape[-2:]
        raise ValueError(f"images of {height}x{width} pixels: expected at least one pixel")
    top, left = ((length - side) // 2 for length in images.shape[-2:])
    images = images[..., top : top + side, left : left + side]
    if side == size:
        return images
    return stretched(images, (size, size))


def stretched(
    images: UInt8[Tensor, "n channels height width"], size: tuple[int, int]
) -> UInt8[Tensor, "n channels rows columns"]:
    """All of each image on so many rows and columns, bicubic with antialiasing."""
    images = F.interpolate(images.float(), size, mode="bicubic", antialias=True)
    return images.round().clamp(0, 255).to(torch.uint8)
