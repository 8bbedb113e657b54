"""Pixels that are gone, filled in from those around them: no edge says where they were."""

from itertools import product

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from vitbook.analysis.capture.running import takes_images
from vitbook.errors import is_number
from vitbook.extras import from_extra

# Of the eight neighbours: those beside count twice as much as those across a corner.
_WEIGHTS = {
    (down, across): 1 / 6 if 0 in (down, across) else 1 / 12
    for down, across in product((-1, 0, 1), repeat=2)
    if (down, across) != (0, 0)
}


@takes_images()
def impute(
    images: Float[Tensor, "batch channels height width"],
    gone: Bool[Tensor, "..."],
    *,
    noise: float | int = 0.01,
    seed: int = 0,
) -> Float[Tensor, "batch channels height width"]:
    """Images whose missing pixels are each the weighted mean of their eight neighbours.

    The noisy linear imputation of Rong et al. 2022, "A consistent and efficient evaluation strategy
    for attribution methods" (ROAD): a flat square tells a model where something was taken away, and
    so of which shape; a filled hole hardly does. The neighbours may be missing too, so all are
    found at once, by a sparse linear system for each image. An image that is gone whole becomes its
    mean colour.

    Args:
        images: as the model takes them.
        gone: "batch height width", true where a pixel is missing.
        noise: standard deviation of what is added to each filled pixel.
        seed: of the noise.

    Raises:
        ModuleNotFoundError: SciPy is not installed.
        TypeError: a mask that is no tensor.
        ValueError: not true or false for each pixel of each image; noise that is no number from 0
            on.
    """
    if not isinstance(gone, Tensor):
        raise TypeError(f"gone came as {type(gone).__name__}: expected a tensor of bool")
    if not is_number(noise) or not 0 <= noise < float("inf"):
        raise ValueError(f"noise {noise!r}: expected a number from 0 on, as 0.01")
    expected = (len(images), *images.shape[2:])
    if gone.dtype != torch.bool or tuple(gone.shape) != expected:
        raise ValueError(
            f"gone is {str(gone.dtype).removeprefix('torch.')} of {tuple(gone.shape)}: expected "
            f"bool of {expected}, true where a pixel is missing"
        )
    filled = [_fill(image, hole) for image, hole in zip(images, gone.cpu(), strict=True)]
    generator = torch.Generator().manual_seed(seed)
    grain = noise * torch.randn(images.shape, generator=generator)
    filled = torch.stack(filled).to(images) + grain.to(images)
    return torch.where(gone.to(images.device)[:, None], filled, images)


def _fill(image: Tensor, gone: Tensor) -> Tensor:
    """One image without noise, on the CPU, in double precision."""
    with from_extra("data"):
        from scipy.sparse import csc_array
        from scipy.sparse.linalg import splu
    image = image.detach().cpu().double()
    if not gone.any():
        return image
    if gone.all():
        return image.mean((1, 2), keepdim=True).expand_as(image)
    rows, columns = gone.nonzero(as_tuple=True)
    here = torch.arange(len(rows))
    number = torch.full(gone.shape, -1)
    number[rows, columns] = here
    sums, known = torch.zeros(len(rows)).double(), torch.zeros(len(rows), len(image)).double()
    entries = [(here, here, sums)]
    for (down, across), weight in _WEIGHTS.items():
        r, c = rows + down, columns + across
        inside = (r >= 0) & (r < gone.shape[0]) & (c >= 0) & (c < gone.shape[1])
        own, r, c = here[inside], r[inside], c[inside]
        sums[own] += weight
        missing = gone[r, c]
        pair = own[missing], number[r, c][missing]
        entries.append((*pair, torch.full(pair[0].shape, -weight).double()))
        known[own[~missing]] += weight * image[:, r[~missing], c[~missing]].T
    own, other, values = (torch.cat(each).numpy() for each in zip(*entries, strict=True))
    system = csc_array((values, (own, other)), shape=[len(rows)] * 2)
    found = image.clone()
    found[:, rows, columns] = torch.from_numpy(
        splu(system, permc_spec="MMD_AT_PLUS_A").solve(known.numpy())
    ).T
    return found
