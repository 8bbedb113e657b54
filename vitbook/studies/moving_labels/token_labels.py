"""Labels of tokens that the model which learns them makes itself, and what holds them apart."""

from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from jaxtyping import Float, Int64
from torch import Tensor, nn

from vitbook.datasets import Dataset, normalize
from vitbook.model_utilities import evaluating
from vitbook.training.engine.batch_random import seed_of
from vitbook.training.engine.batches import Batches
from vitbook.training.objectives.followers import distillation_targets, follow, slow_copies
from vitbook.training.objectives.masks import (
    MaskedLearner,
    at_places,
    check_keeps_tokens,
    check_plain,
)
from vitbook.training.objectives.readings import mean_tokens, nearest_other, spread

Images = Float[Tensor, "batch channels height width"]
Labels = Float[Tensor, "tokens dimensions"]
HEARD = 64  # images among whose hidden tokens an answer is looked for


class Answered(NamedTuple):
    """What a learner makes of the hidden patches of a batch.

    Attributes:
        loss: to be lowered.
        predicted: an answer to each hidden patch, of length 1.
        labels: of the same patches, of length 1.
    """

    loss: Float[Tensor, ""]
    predicted: Float[Tensor, "batch hidden dimensions"]
    labels: Float[Tensor, "batch hidden dimensions"]


def found(predicted: Labels, labels: Labels) -> float:
    """Share of the answers whose own label has the largest inner product of all, no other as large.

    What B. Yu's slides call "select max target". Labels that are all alike find nothing.
    """
    alike = predicted @ labels.T
    own = alike.diagonal()
    others = alike.masked_fill(torch.eye(len(alike), dtype=torch.bool), -torch.inf).amax(dim=1)
    return (own > others + 1e-6).float().mean().item()


class TokenLabels(MaskedLearner):
    r"""A body that tells, at each hidden patch, the label that a network gives it.

    Half of the patches are replaced by a learned [mask]. With :math:`p_i` the body's token at a
    hidden patch and :math:`t_i` the token of the same patch where nothing is hidden, both taken to
    a few numbers by a linear layer or two and brought to length 1, the loss is the mean of

    .. math::
        1 - p_i \cdot t_i

    The idea is that of B. Yu's slides: a label that "is not fixed, varying or should be calculated
    during training", a token in few dimensions, to be found among all tokens by its inner product.
    Who makes :math:`t_i` is the difference between the subclasses; here it is the body itself, and
    the gradient goes both ways, so that one label for all is a solution.

    Args:
        model: a plain Vision Transformer; its head does not learn.
        hidden: width of the prediction's middle.
        dimensions: of a label.

    Raises:
        ValueError: another model.
    """

    one_process = True  # a loss may compare tokens of all images
    followers: ClassVar[tuple[str, ...]] = ("slow_",)
    momentum: ClassVar[float | None] = None  # of the copy that makes the labels; None is no copy

    def __init__(self, model: nn.Module, hidden: int = 128, dimensions: int = 16):
        super().__init__()
        check_plain(model, "labels of hidden tokens")
        check_keeps_tokens(model, "labels of hidden tokens")
        self.model = model
        self.mask = nn.Parameter(torch.zeros(model.prefix.shape[1]))
        width = getattr(model.encoder.norm, "normalized_shape", self.mask.shape)[-1]
        self.projector = nn.Linear(width, dimensions)
        self.predictor = nn.Sequential(
            nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, dimensions)
        )
        self.begin_again()

    def begin_again(self) -> None:
        if self.momentum is not None:
            self.slow_model, self.slow_projector = slow_copies(self.model, self.projector)

    def inputs(self, batches: Batches, step: int) -> tuple:
        return (super().inputs(batches, step)[0].places,)

    def trial_inputs(self, images: Tensor) -> tuple:
        return (super().trial_inputs(images)[0].places,)

    def forward(self, images: Images, hidden: Int64[Tensor, "batch hidden"]) -> Answered:
        if self.training and self.momentum is not None:
            follow(self.slow_model, self.model, self.momentum)
            follow(self.slow_projector, self.projector, self.momentum)
        hidden = hidden.to(images.device)
        predicted = F.normalize(self.predict(images, hidden).float(), dim=-1)
        labels = F.normalize(at_places(self.label(images), hidden).float(), dim=-1)
        flat = (rearrange(each, "b h d -> (b h) d") for each in (predicted, labels))
        return Answered(self.loss(*flat), predicted, labels)

    def predict(
        self, images: Images, hidden: Int64[Tensor, "batch hidden"]
    ) -> Float[Tensor, "batch hidden dimensions"]:
        """What the body says of the hidden patches, which it is not shown."""
        tokens, prefix = self.model.tokenizer(images), self.model.num_prefix_tokens
        masks = repeat(
            self.mask.to(tokens.dtype), "d -> b h d", b=hidden.shape[0], h=hidden.shape[1]
        )
        tokens = tokens.scatter(1, repeat(hidden, "b h -> b h d", d=tokens.shape[2]), masks)
        first = repeat(self.model.prefix, "n d -> b n d", b=len(images))
        placed = self.model.dropout(self.model.position(torch.cat([first, tokens], dim=1)))
        return self.predictor(at_places(self.model.encoder(placed)[:, prefix:], hidden))

    def label(self, images: Images) -> Float[Tensor, "batch patches dimensions"]:
        """Of every patch, from the whole image."""
        if self.momentum is None:
            return self.projector(self.model.features(images)[:, self.model.num_prefix_tokens :])
        with torch.no_grad():
            tokens = self.slow_model.features(images)[:, self.model.num_prefix_tokens :]
            return self.slow_projector(tokens)

    def loss(self, predicted: Labels, labels: Labels) -> Float[Tensor, ""]:
        """One less the mean cosine of an answer and its label."""
        return 1 - (predicted * labels).sum(dim=1).mean()

    @torch.no_grad()
    def score(self, dataset: Dataset, batch_size: int = 256) -> dict[str, float]:
        """``accuracy``: of nearest other images with the same label; ``spread`` and ``found``.

        The spread is that of the labels at one place, over images, mean of the places: labels that
        say the place and nothing else have none. Found are hidden tokens, among those of 64 images.
        """
        device, labels = self.mask.device, []
        features = mean_tokens(self.model, dataset.images, batch_size)
        images = normalize(dataset.images[:HEARD].to(device))
        chance = torch.Generator().manual_seed(seed_of(0, "held-out masks"))
        with evaluating(self):
            seen = self(images, self.choose(len(images), chance).places)
            for some in dataset.images[: 4 * batch_size].split(batch_size):
                labels.append(self.label(normalize(some.to(device))))
        by_place = torch.cat(labels).unbind(dim=1)
        return {
            "accuracy": nearest_other(features, dataset.labels.to(device)),
            "spread": sum(map(spread, by_place)) / len(by_place),
            "found": found(seen.predicted.flatten(0, 1).cpu(), seen.labels.flatten(0, 1).cpu()),
        }


class StoppedLabels(TokenLabels):
    """The body's own labels, toward which no gradient moves them: one ``detach`` is the difference.

    The stop-gradient of Chen and He 2021 ("SimSiam"), section 4.1. The layer that makes the labels
    is then in no loss, and stays as it was drawn.
    """

    def loss(self, predicted: Labels, labels: Labels) -> Float[Tensor, ""]:
        return super().loss(predicted, labels.detach())


class FixedLabels(TokenLabels):
    """The labels are those of a copy that never moves: the network as it was drawn.

    Grill et al. 2020 ("BYOL"), section 3.1, begin with such a target.
    """

    momentum = 1.0


class SlowLabels(TokenLabels):
    """The labels are those of a copy that follows the body slowly, as in BYOL."""

    momentum = 0.99


class CenteredLabels(TokenLabels):
    r"""A slow copy's labels, centred and sharpened (Caron et al. 2021, "DINO", section 3.1).

    The numbers of a label are scores of prototypes: Zhou et al. 2022 ("iBOT") ask hidden tokens so.
    With the answer :math:`p`, the label :math:`t` and the running mean :math:`c` of the labels,

    .. math::
        L = -\sum_k \mathrm{softmax}((t - c) / 0.04)_k \log \mathrm{softmax}(p / 0.1)_k
    """

    momentum = 0.99

    def __init__(self, model: nn.Module, hidden: int = 128, dimensions: int = 16):
        super().__init__(model, hidden, dimensions)
        self.register_buffer("slow_center", torch.zeros(dimensions))

    def loss(self, predicted: Labels, labels: Labels) -> Float[Tensor, ""]:
        targets = distillation_targets(labels, self.slow_center, 0.04)
        if self.training:
            self.slow_center.lerp_(labels.mean(dim=0), 0.1)
        return -(targets * (predicted / 0.1).log_softmax(dim=1)).sum(dim=1).mean()


class TokensApart(TokenLabels):
    """The body's own labels, each to be told from those of all hidden tokens of the batch.

    The inner products with all of them go through a softmax, at a temperature of 0.1.
    """

    def loss(self, predicted: Labels, labels: Labels) -> Float[Tensor, ""]:
        own = torch.arange(len(labels), device=labels.device)
        return F.cross_entropy(predicted @ labels.T / 0.1, own)
