"""Boxes, and how much two of them share."""

import torch
from jaxtyping import Float
from torch import Tensor

Boxes = Float[Tensor, "*batch 4"]


def corners(boxes: Boxes) -> Boxes:
    """(centre x, centre y, width, height) as (left, top, right, bottom), in the same units."""
    centre, size = boxes[..., :2], boxes[..., 2:]
    return torch.cat([centre - size / 2, centre + size / 2], dim=-1)


def overlaps(
    ours: Float[Tensor, "*#pairs 4"], theirs: Float[Tensor, "*#pairs 4"]
) -> tuple[Float[Tensor, "*pairs"], Float[Tensor, "*pairs"]]:
    r"""Intersection over union (IoU), and generalised IoU, of boxes given by their corners.

    .. math:: \mathrm{GIoU} = \mathrm{IoU} - \frac{|C| - |A \cup B|}{|C|}

    C is the smallest box around both. Rezatofighi et al. 2019, "Generalized intersection over
    union", algorithm 1: boxes that do not meet have an IoU of 0 however far apart they are, and
    a GIoU that falls with the distance. Both sides are broadcast: ``ours[:, None], theirs`` gives
    all pairs.
    """

    def area(low: Tensor, high: Tensor) -> Tensor:
        return (high - low).clamp(min=0).prod(dim=-1)

    (a, b), (c, d) = (each.split(2, dim=-1) for each in (ours, theirs))
    shared = area(torch.maximum(a, c), torch.minimum(b, d))
    union = area(a, b) + area(c, d) - shared
    around = area(torch.minimum(a, c), torch.maximum(b, d))
    # Two boxes without area share nothing; they are no reason for a NaN.
    least = torch.finfo(union.dtype).tiny
    iou = shared / union.clamp(min=least)
    return iou, iou - (around - union) / around.clamp(min=least)
