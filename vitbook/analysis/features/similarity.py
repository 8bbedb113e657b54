"""Who is like whom: layers and models by what they make of images."""

from collections.abc import Sequence
from math import ceil

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.analysis.capture.outputs import outputs_of
from vitbook.analysis.capture.running import takes_images
from vitbook.blocks import find_layers
from vitbook.devices import to_float64


def unbiased_hsic(
    first: Float[Tensor, "*lead images images"], second: Float[Tensor, "*lead images images"]
) -> Float[Tensor, "*lead"]:
    r"""How much two tables of likenesses between images agree; 0 on average where they have
    nothing in common.

    .. math::
        \frac{1}{n(n-3)} \Big[ \mathrm{tr}(\tilde K \tilde L)
        + \frac{1^\top \tilde K 1 \; 1^\top \tilde L 1}{(n-1)(n-2)}
        - \frac{2}{n-2} 1^\top \tilde K \tilde L 1 \Big]

    Song et al. 2012; the tilde sets the diagonal to zero. Its mean over small batches equals its
    value over large ones; the mean of the common (biased) estimate does not.

    Raises:
        ValueError: fewer than 4 images.
    """
    n = first.shape[-1]
    if n < 4:
        raise ValueError(f"{n} images: expected at least 4 to compare likenesses")
    off = 1 - torch.eye(n, dtype=first.dtype, device=first.device)
    k, other = first * off, second * off
    k_rows, other_rows = k.sum(-1), other.sum(-1)
    trace = (k * other).sum((-2, -1))
    means = k_rows.sum(-1) * other_rows.sum(-1) / ((n - 1) * (n - 2))
    return (trace + means - 2 / (n - 2) * (k_rows * other_rows).sum(-1)) / (n * (n - 3))


def linear_cka(
    x: Float[Tensor, "images width"], y: Float[Tensor, "images other_width"]
) -> Float[Tensor, ""]:
    r"""How alike two descriptions of the same images are, up to rotation and scale.

    .. math:: \mathrm{HSIC}(xx^\top, yy^\top) \big/
              \sqrt{\mathrm{HSIC}(xx^\top, xx^\top)\, \mathrm{HSIC}(yy^\top, yy^\top)}

    Kornblith et al. 2019, with :func:`unbiased_hsic`: 1 for the same, about 0 (and
    sometimes a little below) for descriptions that have nothing in common. With the biased
    estimate of the paper two random ones look alike when they are wide and the images few. In
    float64; nan where a description says the same of all images.

    Raises:
        ValueError: fewer than 4 images.

    Example:
        >>> import torch
        >>> from vitbook.analysis import linear_cka
        >>> x, turn = torch.randn(50, 8), torch.linalg.qr(torch.randn(8, 8)).Q
        >>> round(float(linear_cka(x, 3 * x @ turn)), 4)
        1.0
    """
    of_x, of_y = _gram(x), _gram(y)
    scale = (unbiased_hsic(of_x, of_x) * unbiased_hsic(of_y, of_y)).sqrt()
    return unbiased_hsic(of_x, of_y) / scale


@takes_images()
@torch.no_grad()
def cka(
    model_a: nn.Module,
    model_b: nn.Module,
    images: Float[Tensor, "images channels height width"],
    layers_a: Sequence[str | int] | None = None,
    layers_b: Sequence[str | int] | None = None,
    *,
    batch_size: int = 32,
) -> Float[Tensor, "layers_a layers_b"]:
    """:func:`linear_cka` between every layer of one model and every layer of another.

    The three HSIC are averaged over batches before they are divided (Nguyen et al. 2021), so
    that memory grows neither with the images nor with the depth: each output is folded to its
    table of likenesses at once. An output counts as one vector, prefix tokens included. The
    models run in evaluation mode and are left in the modes in which they came.

    Args:
        model_a: any model.
        model_b: another, or the same one, which then runs once.
        images: that both take.
        layers_a: paths of modules, or numbers of blocks (:func:`list_blocks`); by default every
            block.
        layers_b: likewise.
        batch_size: images at a time, 4 at least; batches are made as even as they can be.

    Raises:
        TypeError: images that are not floating point.
        ValueError: fewer than 4 images or a smaller batch, NaN in them, or no layers.
        UnknownNameError: a layer that is not there; names the nearest.
        RuntimeError: a layer that did not run.
    """
    chosen_a, chosen_b = find_layers(model_a, layers_a), find_layers(model_b, layers_b)
    if min(len(images), batch_size) < 4:
        raise ValueError(f"{len(images)} images in batches of {batch_size}: expected at least 4")
    # No more batches than leave each 4 images.
    batches = images.tensor_split(min(ceil(len(images) / batch_size), len(images) // 4))
    both = torch.zeros(len(chosen_a), len(chosen_b), dtype=torch.float64)
    of_a, of_b = both.new_zeros(len(chosen_a)), both.new_zeros(len(chosen_b))
    for batch in batches:
        if model_a is model_b:
            grams = _grams(model_a, batch, tuple(dict.fromkeys(chosen_a + chosen_b)))
            a, b = (torch.stack([grams[p] for p in some]) for some in (chosen_a, chosen_b))
        else:
            a = torch.stack([*_grams(model_a, batch, chosen_a).values()])
            b = torch.stack([*_grams(model_b, batch, chosen_b).values()])
        both += torch.stack([unbiased_hsic(one.expand_as(b), b) for one in a])
        of_a += unbiased_hsic(a, a)
        of_b += unbiased_hsic(b, b)
    return both / (of_a[:, None] * of_b).sqrt()


def _gram(outputs: Tensor) -> Float[Tensor, "images images"]:
    flat = rearrange(to_float64(outputs), "b ... -> b (...)")
    flat = flat - flat.mean(0)  # changes nothing but the rounding: HSIC is blind to a shift
    return flat @ flat.mT


def _grams(model: nn.Module, images: Tensor, layers: tuple[str, ...]) -> dict[str, Tensor]:
    grams = outputs_of(model, images, layers, lambda path, output: _gram(output).cpu())
    return {layer: grams[layer] for layer in layers}
