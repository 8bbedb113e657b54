"""Learning without labels from two views of each image, and SimCLR.

What learns from a slow copy of itself is in `slow_copy`.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.datasets import Dataset
from vitbook.model_utilities import evaluating
from vitbook.models.papers.vit import VisionTransformer
from vitbook.training.engine.batches import Batches
from vitbook.training.objectives.learner import Learner
from vitbook.training.objectives.readings import (
    mean_token,
    mean_tokens,
    nearest_other,
    spread,
)

Views = Float[Tensor, "batch channels height width"]
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
        ValueError: fewer than two images.

    Example:
        >>> import torch
        >>> from vitbook.studies.self_supervision import contrastive_loss
        >>> views = torch.eye(4)
        >>> round(contrastive_loss(views, views, 0.5).item(), 4)  # log(1 + 6 / e^2)
        0.5944
    """
    if len(first) < 2:
        raise ValueError(
            f"{len(first)} images in a batch: expected two at least, as a view is told from those "
            "of other images"
        )
    views = F.normalize(torch.cat([first, second]).float(), dim=1)
    with torch.autocast(views.device.type, enabled=False):  # it would round the cosines
        alike = views @ views.T / temperature
    itself = torch.eye(len(views), dtype=torch.bool, device=views.device)
    partners = torch.arange(len(views), device=views.device).roll(len(first))
    return F.cross_entropy(alike.masked_fill(itself, -torch.inf), partners)


class Projected(NamedTuple):
    """What a learner makes of the two views of a batch.

    Attributes:
        loss: to be lowered.
        features: of the first views, as a probe reads them.
        projections: of the first views; their spread tells a collapse.
    """

    loss: Float[Tensor, ""]
    features: Float[Tensor, "batch features"]
    projections: Projections


class TwoViews(Learner):
    """A body, and a projector of its mean token that learns with it and is then thrown away.

    Args:
        model: a Vision Transformer; its head does not learn.
        hidden: width of the projector's middle.
        dimensions: of a projection.
        make_projector: of a token's width and these two; by default :func:`projector`.

    Raises:
        ValueError: a model that is no Vision Transformer.
    """

    one_process = True  # each would see the views of its own images alone

    def __init__(
        self,
        model: nn.Module,
        hidden: int,
        dimensions: int,
        make_projector: Callable[[int, int, int], nn.Module] | None = None,
    ):
        super().__init__()
        if not isinstance(model, VisionTransformer):
            raise ValueError(
                f"two views for a {type(model).__name__}: expected a Vision Transformer, whose "
                "mean token is read"
            )
        self.model = model
        token = model.prefix.shape[1]
        width = getattr(model.encoder.norm, "normalized_shape", (token,))[-1]
        self.projector = (make_projector or projector)(width, hidden, dimensions)

    def project(self, features: Float[Tensor, "batch features"]) -> Projections:
        """What is compared of an image."""
        return self.projector(features)

    def inputs(self, batches: Batches, step: int) -> tuple[Views]:
        return (batches.second_view(step),)

    def trial_inputs(self, images: Views) -> tuple[Views]:
        return (images,)

    @torch.no_grad()
    def score(self, dataset: Dataset, batch_size: int = 256) -> dict[str, float]:
        """``accuracy``: the share of images whose nearest other one has their label; ``spread``.

        The spread is that of the projections, see :func:`spread`.
        """
        features = mean_tokens(self.model, dataset.images, batch_size)
        with evaluating(self):
            projections = [self.project(some) for some in features.split(batch_size)]
        accuracy = nearest_other(features, dataset.labels.to(features.device))
        return {"accuracy": accuracy, "spread": spread(torch.cat(projections))}


class Projector(nn.Sequential):
    """Layers of a precision of their own: a body in half precision has its tokens made float32."""

    def forward(self, features: Tensor) -> Tensor:
        return super().forward(features.to(self[0].weight.dtype))


def projector(width: int, hidden: int, dimensions: int) -> Projector:
    """Two linear layers with batch norm and ReLU between; BYOL's, and SimCLR's with one norm."""
    return Projector(
        nn.Linear(width, hidden, bias=False),
        nn.BatchNorm1d(hidden),
        nn.ReLU(),
        nn.Linear(hidden, dimensions, bias=False),
    )


class SimCLR(TwoViews):
    """A body whose two views of an image shall be told from the views of other images.

    Chen et al. 2020, section 2.

    Args:
        model, hidden, dimensions: see :class:`TwoViews`.
        temperature: see :func:`contrastive_loss`.
    """

    def __init__(
        self,
        model: nn.Module,
        hidden: int = 256,
        dimensions: int = 64,
        temperature: float | int = 0.5,
    ):
        super().__init__(model, hidden, dimensions)
        self.temperature = temperature

    def forward(self, first: Views, second: Views) -> Projected:
        count = len(first)  # both views in one batch, whose statistics batch norm takes
        features = mean_token(self.model, torch.cat([first, second]))
        projections = self.projector(features)
        loss = contrastive_loss(projections[:count], projections[count:], self.temperature)
        return Projected(loss, features[:count], projections[:count])
