"""Learning without labels from a slow copy of oneself: BYOL and DINO."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.studies.self_supervision.two_views import (
    Projected,
    Projections,
    Projector,
    TwoViews,
    Views,
    projector,
)
from vitbook.training.objectives.followers import distillation_targets, follow, slow_copies
from vitbook.training.objectives.readings import mean_token

Scores = Float[Tensor, "batch prototypes"]


def prediction_loss(predicted: Projections, target: Projections) -> Float[Tensor, ""]:
    """Mean squared distance of two projections of length 1, which is two less twice their cosine.

    BYOL (Grill et al. 2020), equation 2. 0 if they point the same way, 2 if they are orthogonal,
    4 if opposite. No gradient reaches the target.
    """
    return 2 - 2 * F.cosine_similarity(predicted, target.detach(), dim=1).mean()


class SlowCopy(TwoViews):
    """Two views for a body, and a copy of it and of its projector that follows it slowly.

    Args:
        model, hidden, dimensions, projector: see :class:`TwoViews`.
        momentum: share that the slow copy keeps of itself at each step.
    """

    followers = ("slow_",)

    def __init__(
        self, model: nn.Module, hidden: int, dimensions: int, momentum: float | int, *projector
    ):
        super().__init__(model, hidden, dimensions, *projector)
        self.momentum = momentum

    def begin_again(self) -> None:
        """Make the slow copy as the body and its projector are now, their layers included."""
        self.slow_model, self.slow_projector = slow_copies(self.model, self.projector)

    @torch.no_grad()
    def slow_answers(self, both: Views) -> Projections:
        """Of the copy, to the second views and then to the first: each view predicts the other."""
        first, second = self.slow_projector(mean_token(self.slow_model, both)).chunk(2)
        return torch.cat([second, first])

    def follow(self) -> None:
        """Move the slow copy toward the learning one, see :func:`follow`."""
        follow(self.slow_model, self.model, self.momentum)
        follow(self.slow_projector, self.projector, self.momentum)


class BYOL(SlowCopy):
    """A body that predicts, from one view, what a slower copy of it makes of the other.

    Grill et al. 2020, section 3.1. No other image is looked at. What keeps all images from getting
    one projection is the predictor and the slow copy: ``predictor=False`` and ``momentum=0`` take
    one of them away.

    Args:
        model, hidden, dimensions: see :class:`TwoViews`.
        momentum: see :class:`SlowCopy`.
        predictor: whether the prediction has layers of its own.
    """

    def __init__(
        self,
        model: nn.Module,
        hidden: int = 256,
        dimensions: int = 64,
        momentum: float | int = 0.99,
        predictor: bool = True,
    ):
        super().__init__(model, hidden, dimensions, momentum)
        self.predictor = projector(dimensions, hidden, dimensions) if predictor else nn.Identity()
        self.begin_again()

    def forward(self, first: Views, second: Views) -> Projected:
        if self.training:
            self.follow()  # the step before: at the first one the copy is the body
        count, both = len(first), torch.cat([first, second])
        features = mean_token(self.model, both)
        projections = self.projector(features)
        loss = prediction_loss(self.predictor(projections), self.slow_answers(both))
        return Projected(loss, features[:count], projections[:count])


class DINO(SlowCopy):
    r"""A body that gives a view the answer that a slower copy of it gives to the other view.

    Self-distillation with no labels (Caron et al. 2021), section 3.1. An answer is a distribution
    over prototypes, directions that are learned. With the cosines :math:`s` of one view, those
    :math:`g` of the copy to the other view, and their running mean :math:`c`,

    .. math::
        L = -\sum_k \mathrm{softmax}((g - c) / \tau_t)_k \log \mathrm{softmax}(s / \tau_s)_k

    Centering and sharpening (:math:`\tau_t < \tau_s`) keep all images from getting one answer:
    ``centered=False`` and ``sharp=False`` take one of them away. The paper has views of two sizes
    ("multi-crop") and 65,536 prototypes; here there are two views and 64 prototypes.

    Args:
        model, hidden: see :class:`TwoViews`.
        prototypes: classes that the body makes up.
        momentum: see :class:`SlowCopy`.
        centered: whether the running mean is taken off the copy's scores.
        sharp: whether the copy's temperature is 0.04, and not the student's 0.1.
    """

    def __init__(
        self,
        model: nn.Module,
        hidden: int = 256,
        prototypes: int = 64,
        momentum: float | int = 0.99,
        centered: bool = True,
        sharp: bool = True,
    ):
        super().__init__(model, hidden, prototypes, momentum, Prototypes)
        self.centered, self.temperature = centered, 0.1
        self.slow_temperature = 0.04 if sharp else self.temperature
        self.register_buffer("slow_center", torch.zeros(prototypes))
        self.begin_again()

    def project(self, features: Float[Tensor, "batch features"]) -> Projections:
        """Its answers, whose spread is 0 if one prototype wins always, and if none ever does."""
        return (self.projector(features) / self.temperature).softmax(dim=1)

    def forward(self, first: Views, second: Views) -> Projected:
        if self.training:
            self.follow()
        count, both = len(first), torch.cat([first, second])
        features = mean_token(self.model, both)
        scores, slow = self.projector(features), self.slow_answers(both)
        targets = distillation_targets(slow, self.slow_center, self.slow_temperature)
        if self.training and self.centered:
            self.slow_center.lerp_(slow.mean(dim=0), 0.1)
        answers = (scores / self.temperature).log_softmax(dim=1)
        loss = -(targets * answers).sum(dim=1).mean()
        return Projected(loss, features[:count], answers[:count].exp())


class Prototypes(nn.Module):
    """The cosines of a projection with directions that are learned; no batch norm."""

    def __init__(self, width: int, hidden: int, prototypes: int):
        super().__init__()
        self.layers = Projector(
            nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, prototypes)
        )  # fmt: skip
        self.directions = nn.Linear(prototypes, prototypes, bias=False)

    def forward(self, features: Float[Tensor, "batch features"]) -> Scores:
        directions = F.normalize(self.directions.weight, dim=1)
        projections = F.normalize(self.layers(features).to(directions.dtype), dim=1)
        with torch.autocast(features.device.type, enabled=False):  # it would round the cosines
            return F.linear(projections, directions)
