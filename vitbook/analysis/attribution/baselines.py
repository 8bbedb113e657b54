"""What stands where a part of an image is taken away: no answer without it."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.analysis.attribution.blur import gaussian_blur
from vitbook.analysis.capture.running import takes_images
from vitbook.colors import OURS, check_channels, colors_of, warn_of_silence
from vitbook.errors import is_number

BLUR = (11, 5.0)  # kernel and standard deviation in pixels, of RISE's code for 224 px

_FINITE = "expected finite numbers, such as images hold"

Baseline = str | float | int | Tensor


def black_level(model: nn.Module, channels: int) -> Float[Tensor, "channels"]:
    r"""What a black pixel is for a model, in each channel: :math:`(0 - \mu) / \sigma`.

    The mean and the standard deviation are those that the model, or the one inside a wrapper, says
    it was trained with (:func:`vitbook.colors.colors_of`). A model that says nothing takes images
    between -1 and 1, as ours do (:func:`vitbook.datasets.normalize`): black is -1.

    Args:
        model: any.
        channels: of the images.

    Raises:
        ValueError: the model states its mean and standard deviation for another number of channels,
            or several inside it state different ones.
    """
    colors = colors_of(model)
    if colors is None:
        warn_of_silence(model)
        colors = OURS
    check_channels(colors, channels, model)
    return colors.black(channels)


@takes_images()
def baseline_images(
    images: Float[Tensor, "batch channels height width"],
    baseline: Baseline,
    model: nn.Module | None = None,
) -> Float[Tensor, "batch channels height width"]:
    """Images of the same shape without information: what a pixel becomes when it is taken away.

    Args:
        images: as the model takes them.
        baseline: "black", what it is for the model (:func:`black_level`); a number for every
            pixel; a number for each channel, "channels"; "mean", each image's own mean colour;
            "blur", each image blurred (Petsiuk et al. 2018, RISE); or images.
        model: asked what black is; without one the images lie between -1 and 1.

    Raises:
        ValueError: another word, numbers or images of another shape, not one image for each, or
            NaN or infinity, also in the precision of the images.
    """
    channels = images.shape[1]
    if isinstance(baseline, str) and baseline == "black":
        baseline = black_level(model, channels) if model is not None else -1.0
    if isinstance(baseline, Tensor):
        if baseline.shape == (channels,):
            baseline = baseline[:, None, None].expand(images.shape[1:])
        fits = baseline.ndim == 3 or (baseline.ndim == 4 and len(baseline) in (1, len(images)))
        if not fits or baseline.shape[-3:] != images.shape[-3:]:
            raise ValueError(
                f"a baseline of shape {tuple(baseline.shape)} for images of "
                f"{tuple(images.shape)}: expected a number for each channel, one image, or as "
                "many as there are images"
            )
        baseline = baseline.to(images)
        if not baseline.isfinite().all():
            raise ValueError(f"a baseline with NaN or infinity in {images.dtype}: {_FINITE}")
        return baseline.expand_as(images)
    if is_number(baseline):
        if not abs(baseline) <= torch.finfo(images.dtype).max:
            raise ValueError(f"baseline {baseline} is not finite in {images.dtype}: {_FINITE}")
        return torch.full_like(images, baseline)
    if baseline == "mean":
        return images.mean((2, 3), keepdim=True).expand_as(images)
    if baseline == "blur":
        kernel, deviation = BLUR
        largest = 2 * min(images.shape[2:]) - 1  # mirrored at the border, once
        return gaussian_blur(images, (min(kernel, largest),) * 2, (deviation,) * 2)
    came = repr(baseline) if isinstance(baseline, str) else f"as a {type(baseline).__name__}"
    raise ValueError(
        f"baseline {came}: expected 'black', 'mean', 'blur', a number, a number for each "
        "channel, or images"
    )


def check_answer(answer: Tensor, nothing: Tensor, images: Tensor) -> None:
    """Refuse an answer that is no number, as of a baseline so far off that a model overflows.

    Raises:
        ValueError: NaN or infinity; names how far the baseline and the images reach.
    """
    if not answer.isfinite().all():
        (lowest, highest), (low, high) = nothing.aminmax(), images.aminmax()
        raise ValueError(
            f"between a baseline from {lowest:g} to {highest:g} and images from {low:g} to "
            f"{high:g} the model answers with NaN or infinity: expected a baseline in the range of "
            "the images, and finite weights"
        )
