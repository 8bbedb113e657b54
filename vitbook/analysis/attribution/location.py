"""Is an explanation right: by where the answer lies, when that is known."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from vitbook.analysis.attribution.faithfulness import check_maps
from vitbook.analysis.capture.layout import pixels_per_token


def pointing(
    maps: Float[Tensor, "batch rows columns"],
    masks: Bool[Tensor, "batch height width"],
    tolerance: float | int = 0.0,
) -> Float[Tensor, "batch"]:
    """Whether the highest cell of each map lies where the answer does: 1 or 0.

    The pointing game (Zhang et al. 2018, "Top-down neural attention by excitation backprop", who
    allow 15 pixels on photographs). A cell points with its centre. Where several cells are equally
    high, the result is the share of them that lies in the mask: the chance that one of them, drawn
    at random, hits.

    Args:
        maps: an explanation on any grid that divides the mask.
        masks: true where the answer lies.
        tolerance: pixels that the centre may lie outside of it.

    Raises:
        TypeError: masks that are not true or false.
        ValueError: a mask without a pixel; maps as in :func:`~.faithfulness.deletion`; a
            tolerance below 0.

    Example:
        >>> import torch
        >>> from vitbook.analysis import pointing
        >>> masks = torch.zeros(2, 8, 8, dtype=torch.bool)
        >>> masks[:, :4, :4] = True
        >>> maps = torch.tensor([[[1.0, 0.0], [0.0, 0.0]], [[1.0, 1.0], [0.0, 0.0]]])
        >>> pointing(maps, masks)  # the second map has two highest cells, and one of them hits
        tensor([1.0000, 0.5000])
    """
    _check_masks(masks)
    check_maps(maps, masks)
    if not tolerance >= 0:
        raise ValueError(f"a tolerance of {tolerance} px: expected 0 or more")
    step = torch.tensor(pixels_per_token(masks, maps.shape[1:]), device=maps.device)
    hits = []
    for values, mask in zip(maps, masks.to(maps.device), strict=True):
        centres = ((values == values.max()).nonzero() + 0.5) * step
        pixels = mask.nonzero() + 0.5
        outside = ((centres[:, None] - pixels).abs() - 0.5).clamp(min=0).norm(dim=-1)
        hits.append((outside.amin(1) <= tolerance).float().mean())
    return torch.stack(hits)


def _check_masks(masks: Tensor) -> None:
    kind = str(getattr(masks, "dtype", type(masks).__name__)).removeprefix("torch.")
    if kind != "bool" or not isinstance(masks, Tensor):
        raise TypeError(f"masks are {kind}: expected true where the answer lies, masks > 0")
    if masks.ndim != 3:
        raise ValueError(f"masks of shape {tuple(masks.shape)}: expected (images, height, width)")
    if not masks.any(2).any(1).all():
        raise ValueError("a mask has no pixel: expected one for each image that says where")
