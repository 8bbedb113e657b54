"""A linear head on patch tokens: fitted to a few masks, enlarged to pixels, scored by IoU."""

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int64, Shaped
from torch import Tensor

from vitbook.training.transfer.ridge import RidgeLayer, RidgePath

# Of masks: how often some are drawn to fit the head, the others to score it.
DRAWS, MASKS = 30, 3
_RADIUS, _EDGE = 8, 1e-2  # of the guided filter: pixels, and a variance of colours from 0 to 1


def patch_labels(
    masks: Shaped[Tensor, "n height width"], grid_size: tuple[int, int]
) -> Int64[Tensor, "n patches"]:
    """1 where more than half of a patch shows the object, else 0.

    Args:
        masks: bool.

    Raises:
        TypeError: masks that are not bool.
    """
    check_masks(masks)
    shares = F.adaptive_avg_pool2d(masks[:, None].float(), grid_size)
    return (shares.flatten(1) > 0.5).long()


def fit_head(tokens: Float[Tensor, "n patches width"], labels: Int64[Tensor, "..."]) -> RidgeLayer:
    """Ridge regression of every patch to +1, object, or -1.

    The penalty is chosen on one photograph after the other, each left out once; with one
    photograph, on its four quarters of rows.

    Args:
        labels: "n patches", as :func:`patch_labels` makes them.

    Raises:
        ValueError: not one label for each token.
        As :func:`~vitbook.training.transfer.examples.check_examples`.
    """
    if tokens.shape[:-1] != labels.shape:
        raise ValueError(
            f"labels of shape {tuple(labels.shape)} for tokens of shape {tuple(tokens.shape)}: "
            "expected (n, patches) and (n, patches, width), without prefix tokens"
        )
    n, patches = labels.shape
    folds = torch.arange(n).repeat_interleave(patches)
    if n == 1:
        folds = torch.arange(patches) * 4 // patches
    return RidgePath(tokens.flatten(0, 1), labels.flatten(), 2).best(folds)


def scores(
    head: RidgeLayer, tokens: Float[Tensor, "n patches width"], grid_size: tuple[int, int]
) -> Float[Tensor, "n rows columns"]:
    """Above 0 where a patch is nearer to the object.

    Raises:
        ValueError: tokens of another grid.
    """
    if tokens.shape[1] != grid_size[0] * grid_size[1]:
        raise ValueError(
            f"{tokens.shape[1]} tokens of each photograph came for a grid of {grid_size[0]}x"
            f"{grid_size[1]}: expected {grid_size[0] * grid_size[1]}, without prefix tokens"
        )
    background, object_ = head.logits(tokens.flatten(0, 1)).float().unbind(1)
    return rearrange((object_ - background) / 2, "(n r c) -> n r c", r=grid_size[0], c=grid_size[1])


def enlarged(
    maps: Float[Tensor, "n rows columns"], size: int, mode: str = "bilinear"
) -> Float[Tensor, "n {size} {size}"]:
    return F.interpolate(maps[:, None], (size, size), mode=mode)[:, 0]


def guided(
    maps: Float[Tensor, "n height width"], photographs: Float[Tensor, "n channels height width"]
) -> Float[Tensor, "n height width"]:
    """Maps whose edges move to those of a photograph's brightness: the guided filter.

    He, Sun and Tang 2010, "Guided Image Filtering", equations 5, 6 and 8: in each window the map
    becomes a linear function of the brightness.

    Args:
        photographs: from 0 to 1.
    """
    side = 2 * _RADIUS + 1

    def mean(values: Tensor) -> Tensor:
        return F.avg_pool2d(values, side, 1, _RADIUS, count_include_pad=False)

    guide, given = photographs.mean(1, keepdim=True), maps[:, None]
    slope = (mean(guide * given) - mean(guide) * mean(given)) / (
        mean(guide**2) - mean(guide) ** 2 + _EDGE
    )
    offset = mean(given) - slope * mean(guide)
    return (mean(slope) * guide + mean(offset))[:, 0]


def iou(found: Shaped[Tensor, "..."], masks: Shaped[Tensor, "..."]) -> Float[Tensor, "n"]:
    """Pixels in both over pixels in either, of each photograph; 1 where both are empty.

    Args:
        found, masks: bool "n height width".

    Raises:
        TypeError: masks that are not bool.
        ValueError: masks of other shapes.

    Example:
        >>> import torch
        >>> from vitbook.studies.dense.heads import iou
        >>> found = torch.tensor([[[True, True], [False, False]]])
        >>> iou(found, torch.tensor([[[False, True], [False, True]]]))  # 1 of 3
        tensor([0.3333])
    """
    check_masks(found, masks)
    if found.shape != masks.shape:
        raise ValueError(
            f"masks of shape {tuple(masks.shape)} for found ones of {tuple(found.shape)}: expected "
            "one for each, as large"
        )
    both, either = (found & masks).sum((1, 2)), (found | masks).sum((1, 2))
    return torch.where(either > 0, both / either.clamp(min=1), 1.0)


def check_masks(*masks: Tensor) -> None:
    """Refuse masks that are not bool."""
    for each in masks:
        if each.dtype != torch.bool:  # 255 would count 255 times, a score as no pixel
            kind = str(each.dtype).removeprefix("torch.")
            raise TypeError(f"masks are {kind}: expected bool, masks > 0")


def drawn(count: int, masks: int = MASKS, draws: int = DRAWS) -> list[tuple[Tensor, Tensor]]:
    """Which photographs fit the head, and which score it, in each draw of seed 0."""
    generator = torch.Generator().manual_seed(0)
    orders = [torch.randperm(count, generator=generator) for _ in range(draws)]
    return [(order[:masks].sort().values, order[masks:].sort().values) for order in orders]
