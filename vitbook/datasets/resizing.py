"""Pixels to pixels of another size."""

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import UInt8
from torch import Tensor


def resize(
    images: UInt8[Tensor, "n channels height width"], size: int
) -> UInt8[Tensor, "n channels {size} {size}"]:
    """The centre square of each image, bicubic with antialiasing; any number of channels."""
    side = min(images.shape[-2:])
    top, left = ((length - side) // 2 for length in images.shape[-2:])
    images = images[..., top : top + side, left : left + side]
    if side == size:
        return images
    images = F.interpolate(images.float(), size=(size, size), mode="bicubic", antialias=True)
    return images.round().clamp(0, 255).to(torch.uint8)


def from_photo(
    photo: UInt8[np.ndarray, "height width channels"], size: int
) -> UInt8[Tensor, "3 {size} {size}"]:
    """Pixels as scikit-image reads them, as one square image; a fourth channel is dropped."""
    image = rearrange(torch.from_numpy(photo[..., :3].copy()), "h w c -> 1 c h w")
    return resize(image, size)[0]
