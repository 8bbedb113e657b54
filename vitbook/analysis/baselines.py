"""What stands where a part of a picture is taken away: no answer without it."""

import torch
from jaxtyping import Float
from torch import Tensor

from vitbook.analysis.blur import gaussian_blur

BLACK = -1.0  # of pictures between -1 and 1, as vitbook.datasets.normalize makes them
BLUR = (11, 5.0)  # kernel and standard deviation in pixels, of RISE's code for 224 px

Baseline = str | float | int | Tensor


def baseline_images(
    images: Float[Tensor, "batch channels height width"], baseline: Baseline
) -> Float[Tensor, "batch channels height width"]:
    """The pictures with nothing in them.

    Args:
        images: as the model takes them.
        baseline: a number for every pixel (:data:`BLACK`); "mean", each picture's own mean
            colour; "blur", each picture blurred (Petsiuk et al. 2018, RISE); or pictures.

    Raises:
        ValueError: another word, or pictures of another shape.
    """
    if isinstance(baseline, Tensor):
        if baseline.shape[-3:] != images.shape[-3:] or baseline.ndim > 4:
            raise ValueError(
                f"a baseline of shape {tuple(baseline.shape)} for images of "
                f"{tuple(images.shape)}: expected one picture, or as many as there are images"
            )
        return baseline.to(images).expand_as(images)
    if not isinstance(baseline, str):
        return torch.full_like(images, baseline)
    if baseline == "mean":
        return images.mean((2, 3), keepdim=True).expand_as(images)
    if baseline == "blur":
        kernel, deviation = BLUR
        largest = 2 * min(images.shape[2:]) - 1  # mirrored at the border, once
        return gaussian_blur(images, (min(kernel, largest),) * 2, (deviation,) * 2)
    raise ValueError(f"baseline {baseline!r}: expected a number, 'mean', 'blur' or pictures")
