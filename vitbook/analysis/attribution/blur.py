"""Gaussian blur, so that looking into a model needs no torchvision."""

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

Pair = tuple[int, int]


def gaussian_blur(
    images: Float[Tensor, "batch channels height width"],
    size: Pair,
    deviation: tuple[float, float],
) -> Float[Tensor, "batch channels height width"]:
    """Each channel blurred, mirrored at the border: down, then across.

    Args:
        size: pixels that a sum reaches over, down and across; odd, and below twice the image's.
        deviation: of the Gaussian, in pixels, down and across.
    """
    channels = images.shape[1]
    blurred = rearrange(images, "b c h w -> (b c) 1 h w")
    down, across = (_weights(*each).to(images) for each in zip(size, deviation, strict=True))
    blurred = F.pad(blurred, (size[1] // 2,) * 2 + (size[0] // 2,) * 2, mode="reflect")
    blurred = F.conv2d(F.conv2d(blurred, down[None, None, :, None]), across[None, None, None])
    return rearrange(blurred, "(b c) 1 h w -> b c h w", c=channels)


def _weights(size: int, deviation: float) -> Float[Tensor, " size"]:
    places = torch.arange(size) - size // 2
    return (-0.5 * (places / deviation).square()).softmax(0)
