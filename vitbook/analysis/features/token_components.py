"""Tokens as colours: their three largest components, one basis for all images.

Whose tokens, the caller says: :func:`vitbook.analysis.layer_tokens` of a layer, without prefix.
"""

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor

# Of the values that get a colour of their own, in each channel; beyond they are cut.
_QUANTILES = (0.02, 0.98)


def principal_tokens(
    tokens: Float[Tensor, "images patches width"],
    count: int,
    mask: Bool[Tensor, "images patches"] | None = None,
) -> tuple[Float[Tensor, "images patches count"], Float[Tensor, "count"]]:
    """Tokens in the coordinates of their largest principal components, less their mean.

    The components are those of all images together, so that a coordinate means the same in each.
    Each has the sign with which most of its skew is positive.

    Args:
        count: of components.
        mask: tokens that mean and components are taken of; by default all.

    Returns:
        Coordinates, also of tokens outside the mask; and the share of the variance on each
        component, inside the mask.

    Raises:
        ValueError: more components than the tokens have, or fewer than two tokens in the mask.
    """
    chosen = rearrange(tokens, "n p d -> (n p) d") if mask is None else tokens[mask]
    chosen = chosen.detach().double()
    if not chosen.isfinite().all():
        raise ValueError("the tokens hold NaN or infinity: look for it in images or weights")
    if len(chosen) < 2 or not 0 < count <= min(chosen.shape):
        raise ValueError(
            f"{count} components of {len(chosen)} tokens of width {tokens.shape[-1]}: expected at "
            "least two tokens, and no more components than tokens or width"
        )
    mean = chosen.mean(0)
    _, spread, components = torch.linalg.svd(chosen - mean, full_matrices=False)
    skew = ((chosen - mean) @ components.T).pow(3).sum(0)
    components = components * torch.where(skew < 0, -1.0, 1.0)[:, None]
    shares = spread**2 / (spread**2).sum().clamp_min(1e-300)
    found = (tokens.detach().double() - mean) @ components[:count].T
    exact = torch.promote_types(tokens.dtype, torch.float32)
    return found.to(exact), shares[:count].to(exact)


def object_mask(
    tokens: Float[Tensor, "images patches width"],
    grid_size: tuple[int, int],
    coordinates: Float[Tensor, "images patches count"] | None = None,
) -> Bool[Tensor, "images patches"]:
    """What stands out: the side of the first component on which the images' borders do not lie.

    DINOv2 (Oquab et al. 2023, section 7.4) cuts the same component at a threshold and chooses the
    side by hand; here the border chooses, as photographers leave it to the background.

    Args:
        tokens: of patches alone, without prefix.
        grid_size: (rows, columns) of the patches.
        coordinates: the first of what :func:`principal_tokens` gave for the same tokens, without a
            mask, so that it is not computed twice; by default it is computed.

    Raises:
        ValueError: a grid that the patches do not fill, or coordinates of other tokens.
    """
    rows, columns = grid_size
    if rows * columns != tokens.shape[1]:
        raise ValueError(
            f"{tokens.shape[1]} patches do not fill a grid of {rows} x {columns}: leave the class "
            "token out, tokens[:, 1:]"
        )
    if coordinates is None:
        coordinates, _ = principal_tokens(tokens, 1)
    if coordinates.ndim != 3 or coordinates.shape[:2] != tokens.shape[:2]:
        raise ValueError(
            f"coordinates of shape {tuple(coordinates.shape)}: expected (images, patches, count), "
            f"those of the {tokens.shape[0]} x {tokens.shape[1]} tokens"
        )
    first = coordinates[..., 0]
    border = torch.ones(grid_size, dtype=torch.bool, device=tokens.device)
    border[1:-1, 1:-1] = False
    side = torch.where(first[:, border.flatten()].mean() > 0, -1.0, 1.0)
    return first * side > 0


def token_colors(
    tokens: Float[Tensor, "images patches width"],
    mask: Bool[Tensor, "images patches"] | None = None,
) -> Float[Tensor, "images patches 3"]:
    """Red, green and blue, each 0 to 1: the three largest components inside the mask.

    Two patches have one colour where those three components agree, in one image or in two. Tokens
    outside the mask are black.

    Args:
        tokens: of patches alone, without prefix.
        mask: for example of :func:`object_mask`; by default all tokens.

    Raises:
        ValueError: as :func:`principal_tokens`.

    Example:
        >>> import torch
        >>> from vitbook.analysis import object_mask, token_colors
        >>> tokens = torch.randn(2, 16, 32)
        >>> colors = token_colors(tokens, object_mask(tokens, (4, 4)))
        >>> tuple(colors.shape), float(colors.max()) <= 1
        ((2, 16, 3), True)
    """
    found, _ = principal_tokens(tokens, 3, mask)
    inside = found.flatten(0, 1) if mask is None else found[mask]
    low, high = (inside.quantile(share, dim=0) for share in _QUANTILES)
    colors = ((found - low) / (high - low).clamp_min(1e-12)).clamp(0, 1)
    return colors if mask is None else colors * mask[..., None]
