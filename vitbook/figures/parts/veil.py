"""What a map says of a photograph: a veil over it, and a number for each patch."""

import numpy as np
from jaxtyping import Float, UInt8

_DARKEST = 0.86  # of black over what has no share, as in veil.js


def veil(share: Float[np.ndarray, "height width"]) -> UInt8[np.ndarray, "height width 4"]:
    """Black with an alpha: the less the share, from 0 to 1, the more of it."""
    dark = np.zeros((*share.shape, 4), np.uint8)
    dark[..., 3] = np.rint(255 * _DARKEST * (1 - np.clip(share, 0, 1)))
    return dark


def patch_means(
    share: Float[np.ndarray, "height width"], grid_size: tuple[int, int]
) -> Float[np.ndarray, "patches"]:
    """Row by row the mean over each patch of a grid that divides the map."""
    rows, columns = grid_size
    high, wide = (side // parts for side, parts in zip(share.shape, grid_size, strict=True))
    return share.reshape(rows, high, columns, wide).mean((1, 3)).ravel()
