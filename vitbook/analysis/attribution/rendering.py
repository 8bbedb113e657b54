"""A map over patches laid on its image, as the authors of the ViT paper draw it."""

import math

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from vitbook.analysis.attribution.blur import gaussian_blur
from vitbook.analysis.capture.layout import pixels_per_token
from vitbook.analysis.capture.running import check_pictures, takes_images
from vitbook.extras import from_extra


def soft_masks(
    maps: Float[Tensor, "batch rows columns"], height: int, width: int, *, stretch: bool = True
) -> Float[Tensor, "batch height width"]:
    """Maps at the size of the image, from 0 to 1.

    Divided by the maximum, enlarged (Lanczos), blurred (Gaussian, its standard deviation a patch),
    then stretched so that each reaches from 0 to 1: the steps that the authors give for figure 6
    (issue 27 of their repository).

    **Read with care.** The last step hides how strong a map is: it shows the small differences of a
    nearly even map as boldly as a sharp peak. A map that is the same everywhere has nothing to
    stretch and stays 1 everywhere.

    Args:
        maps: a number for each patch, none below 0.
        height: of the image, in pixels; a multiple of the rows.
        width: likewise.
        stretch: False leaves the last step out: 0 is then nothing, and an even map is bright.

    Raises:
        ValueError: NaN, infinity or a number below 0; a grid that does not divide the image; a
            map that is 0 everywhere.
    """
    if not maps.isfinite().all() or (maps < 0).any():
        raise ValueError("maps hold NaN, infinity or numbers below 0: expected weights")
    top = maps.amax((1, 2), keepdim=True)
    if not (top > 0).all():
        raise ValueError("a map is 0 everywhere: nothing can be divided by its maximum")
    patch = pixels_per_token(maps.new_zeros(1, 1, height, width), maps.shape[1:])
    scaled = (maps / top).float().cpu().numpy()
    enlarged = torch.from_numpy(np.stack([_enlarge(map, height, width) for map in scaled]))
    enlarged = enlarged.clamp(0, 1)  # Lanczos overshoots, an eight-bit mask cannot
    sizes = tuple(
        min(2 * math.ceil(3 * step) + 1, 2 * side - 1)  # mirrored at the border, once
        for step, side in zip(patch, (height, width), strict=True)
    )
    deviations = (float(patch[0]), float(patch[1]))
    masks = gaussian_blur(enlarged[:, None], sizes, deviations)[:, 0]
    if stretch:
        low, high = masks.amin((1, 2), keepdim=True), masks.amax((1, 2), keepdim=True)
        flat = high - low < 1e-6
        masks = torch.where(flat, masks, (masks - low) / (high - low).clamp(min=1e-6))
    return masks.clamp(0, 1).to(maps.device)


@takes_images(check_pictures)
def overlay(
    images: UInt8[Tensor, "batch channels height width"],
    maps: Float[Tensor, "maps rows columns"],
    *,
    stretch: bool = True,
) -> UInt8[Tensor, "batch channels height width"]:
    """Images lit where the map is high, and dark elsewhere: times :func:`soft_masks`.

    Raises:
        ValueError: another number of maps than of images, or what :func:`soft_masks` refuses.
    """
    if len(maps) != len(images):
        raise ValueError(f"{len(maps)} maps for {len(images)} images: expected one for each")
    masks = soft_masks(maps, *images.shape[2:], stretch=stretch).to(images.device)
    return (images * masks[:, None]).round().to(torch.uint8)


def _enlarge(map: np.ndarray, height: int, width: int) -> np.ndarray:
    with from_extra("data"):
        from PIL import Image
    image = Image.fromarray(map)  # 32-bit grey: nothing is rounded on the way
    return np.array(image.resize((width, height), Image.Resampling.LANCZOS))
