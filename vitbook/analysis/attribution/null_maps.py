"""Explanations that know nothing of the model: what a real one must beat."""

import torch
from einops import reduce
from jaxtyping import Float
from torch import Tensor

from vitbook.analysis.capture.layout import Pair, pixels_per_token
from vitbook.analysis.capture.running import takes_images


def random_maps(
    number: int, grid_size: Pair, seed: int = 0
) -> Float[Tensor, "number rows columns"]:
    """Cells in any order."""
    return torch.rand(number, *grid_size, generator=torch.Generator().manual_seed(seed))


def centre_maps(number: int, grid_size: Pair) -> Float[Tensor, "number rows columns"]:
    """The nearer to the middle of the image, the more."""
    y, x = (torch.linspace(-1, 1, side + 1)[:-1] + 1 / side for side in grid_size)
    return (-torch.hypot(y[:, None], x)).expand(number, -1, -1)


@takes_images()
def edge_maps(
    images: Float[Tensor, "batch channels height width"], grid_size: Pair
) -> Float[Tensor, "batch rows columns"]:
    """The steeper the image, the more: differences of neighbouring pixels, summed over a cell.

    Adebayo et al. 2018, "Sanity checks for saliency maps": what an edge detector draws looks like
    an explanation.

    Raises:
        ValueError: a grid that does not divide the images.
    """
    down, across = pixels_per_token(images, grid_size)
    steep = torch.zeros_like(images)
    steep[:, :, :-1] += images.diff(dim=2).abs()
    steep[:, :, :, :-1] += images.diff(dim=3).abs()
    return reduce(steep, "b c (rows p) (columns q) -> b rows columns", "sum", p=down, q=across)
