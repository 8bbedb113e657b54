"""What two views of an image lose, and how far apart images lie."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from vitbook.errors import check_temperature

Projections = Float[Tensor, "batch dimensions"]


def contrastive_loss(
    first: Projections, second: Projections, temperature: float | int = 0.5
) -> Float[Tensor, ""]:
    r"""How surely each view picks its partner among all other views of the batch.

    With the cosines :math:`s_{ij}` of the :math:`2N` views, and :math:`j` the partner of
    :math:`i`,

    .. math::
        L = \frac{1}{2N} \sum_i -\log
        \frac{e^{s_{ij} / \tau}}{\sum_{k \ne i} e^{s_{ik} / \tau}}

    SimCLR (Chen et al. 2020), equation 1. Views that are all alike lose :math:`\log(2N - 1)`, the
    loss of a guess. Partners that are equal, and orthogonal to all others, lose
    :math:`\log(1 + (2N - 2) e^{-1 / \tau})`: the least that orthogonal images can reach.

    Args:
        first, second: a projection for each view of each image, in the same order. Their lengths
            do not count.
        temperature: divides the cosines.

    Raises:
        ValueError: fewer than two images, another number of second views, or a temperature that is
            not above 0.

    Example:
        >>> import torch
        >>> from vitbook.training import contrastive_loss
        >>> views = torch.eye(4)
        >>> round(contrastive_loss(views, views, 0.5).item(), 4)  # log(1 + 6 / e^2)
        0.5944
    """
    check_pairs(first, second)
    if len(first) < 2:
        raise ValueError(
            f"{len(first)} images in a batch: expected two at least, as a view is told from those "
            "of other images"
        )
    check_temperature(temperature)
    views = F.normalize(torch.cat([first, second]).float(), dim=1)
    with torch.autocast(views.device.type, enabled=False):  # it would round the cosines
        alike = views @ views.T / temperature
    itself = torch.eye(len(views), dtype=torch.bool, device=views.device)
    partners = torch.arange(len(views), device=views.device).roll(len(first))
    return F.cross_entropy(alike.masked_fill(itself, -torch.inf), partners)


def prediction_loss(predicted: Projections, target: Projections) -> Float[Tensor, ""]:
    """Mean squared distance of two projections of length 1, which is two less twice their cosine.

    BYOL (Grill et al. 2020), equation 2. 0 if they point the same way, 2 if they are orthogonal,
    4 if opposite. No gradient reaches the target.

    Raises:
        ValueError: another number of targets.
    """
    check_pairs(predicted, target)
    return 2 - 2 * F.cosine_similarity(predicted, target.detach(), dim=1).mean()


def spread(projections: Projections) -> float:
    """How far apart the images' directions lie: 1 if in all directions alike, 0 if all are one.

    The share of the unit-length projections that is not their common mean: one less the squared
    length of the mean. A projection of zeros has no direction, and adds nothing.
    """
    unit = F.normalize(projections.float(), dim=1)
    return (unit.square().sum(dim=1).mean() - unit.mean(dim=0).square().sum()).item()


def check_pairs(first: Tensor, second: Tensor) -> None:
    """Refuse what is not two views of each image.

    Raises:
        ValueError: they have different shapes.
    """
    if first.shape != second.shape:
        raise ValueError(
            f"views of shapes {tuple(first.shape)} and {tuple(second.shape)}: expected two of each "
            "image, in the same order"
        )
