"""Knowledge distillation: what a student loses against the answers of a teacher."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from vitbook.colors import recoloring
from vitbook.devices import to_float64
from vitbook.errors import check_temperature
from vitbook.model_utilities import evaluating
from vitbook.runs.recipe import HOTTEST, Recipe
from vitbook.training.engine.batch_random import seed_of
from vitbook.training.engine.batches import Batches, Targets
from vitbook.training.engine.loss import Logits, cross_entropy
from vitbook.training.engine.processes import processes
from vitbook.training.objectives.kept_answers import KeptAnswers


def soft_loss(
    logits: Logits,
    answers: Logits,
    temperature: float | int = 1.0,
) -> Float[Tensor, ""]:
    r"""How far the student's shares of the classes are from the teacher's, at a temperature.

    With the teacher's shares :math:`q = \mathrm{softmax}(z_t / \tau)` and the student's
    :math:`p = \mathrm{softmax}(z_s / \tau)`, of :math:`B` images and :math:`C` classes,

    .. math::
        \frac{\tau^2}{B} \sum_{b=1}^{B} \sum_{c=1}^{C} q_{bc} \log \frac{q_{bc}}{p_{bc}}

    Touvron et al. 2021, equation 2; the authors' code divides by the number of classes, too. The
    divergence is that of the code and of Hinton et al. 2015: the teacher's shares are the weights.
    The paper writes the student first.

    For :math:`\tau \to \infty` it becomes half the mean squared difference of the
    two logits, each centred on its image's mean (Hinton et al. 2015, section 2.1).

    Args:
        logits: of the student.
        answers: logits of the teacher. No gradient reaches them.
        temperature: 1 takes the logits as they are; a higher one makes the shares more equal. Above
            :data:`~.recipe.HOTTEST` they differ by less than their rounding.

    Raises:
        ValueError: a temperature that is not above 0, or is too high; answers of other images or
            classes.

    Example:
        >>> import torch
        >>> from vitbook.training import soft_loss
        >>> even, sure = torch.zeros(1, 2), torch.tensor([[3.0, 1.0]]).log()
        >>> round(soft_loss(even, sure).item(), 4)
        0.1308
    """
    check_temperature(temperature, HOTTEST)
    _check_answers(logits, answers)
    # Nearly equal shares cancel: in float32 nothing is left of them from a temperature of 1e4 on.
    ours, theirs = (
        F.log_softmax(to_float64(each) / temperature, dim=1) for each in (logits, answers.detach())
    )
    exact = F.kl_div(ours, theirs, reduction="sum", log_target=True)
    total = exact.to(logits.device, torch.promote_types(logits.dtype, torch.float32))
    return total * temperature**2 / len(logits)


def hard_loss(logits: Logits, answers: Logits) -> Float[Tensor, ""]:
    """Mean cross-entropy against the class that the teacher holds most likely.

    Touvron et al. 2021, equation 3. The teacher's class is not smoothed. If an answer is not
    finite, nor is the loss.

    Args:
        logits: of the student.
        answers: logits of the teacher.

    Raises:
        ValueError: answers of other images or classes.
    """
    _check_answers(logits, answers)
    loss = F.cross_entropy(logits, answers.argmax(dim=1))
    return torch.where(answers.isfinite().all(), loss, torch.nan)


def distillation_loss(
    logits: Logits | tuple[Logits, Logits],
    targets: Targets,
    answers: Logits,
    recipe: Recipe,
) -> Float[Tensor, ""]:
    r"""What a student with a teacher lowers (Touvron et al. 2021, equations 2 and 3).

    .. math::
        (1 - \lambda)\, \mathrm{CE}(z_s, y) + \lambda\, D(z_d, z_t)

    :math:`\lambda` is the recipe's ``distillation_share`` and :math:`D` is :func:`soft_loss` or
    :func:`hard_loss`. In a model with a distillation head :math:`z_s` comes from the class head
    and :math:`z_d` from the other. A model with one head answers both. Only the labels are
    smoothed.

    The authors' code has :math:`\lambda / C` in the place of :math:`\lambda` behind the plus of
    soft distillation. Up to a factor that is this loss with the share
    :math:`\lambda / (\lambda + C (1 - \lambda))`.

    Args:
        logits: of the student; of its class head and its distillation head, if it has both.
        targets: labels, or shares of classes if the images are mixed.
        answers: logits of the teacher for the same images.
    """
    own, distilled = logits if isinstance(logits, tuple) else (logits, logits)
    if recipe.distillation == "hard":
        taught = hard_loss(distilled, answers)
    else:
        taught = soft_loss(distilled, answers, recipe.temperature)
    share = recipe.distillation_share
    return (1 - share) * cross_entropy(own, targets, recipe.label_smoothing) + share * taught


def _check_answers(logits: Tensor, answers: Tensor) -> None:
    """Fewer answers would be repeated, and more classes cut off, without a word."""
    if logits.shape != answers.shape:
        raise ValueError(
            f"the student answers with {tuple(logits.shape)} and the teacher with "
            f"{tuple(answers.shape)}: expected the same (images, classes)"
        )


class Teacher:
    """A model that answers the images of a run and does not learn, or answers that one left.

    A model is asked about the same images as the student, augmented and mixed, in the precision of
    the step, in colours as it says that it takes them. It answers in evaluation mode and without a
    gradient, and each of its parts is then left in the mode in which it came.

    Args:
        model: any, from images to logits; or :class:`.KeptAnswers`.
        batches: of the run.
        seed: of the shuffling, if the recipe has a ``shuffled_teacher``.
    """

    def __init__(self, model: nn.Module, batches: Batches, seed: int):
        self.model, self.batches, self.seed = model, batches, seed
        self._own_colors = recoloring(model)

    def __call__(
        self, images: Float[Tensor, "own channels height width"], step: int
    ) -> Float[Tensor, "own classes"]:
        kept = isinstance(self.model, KeptAnswers)
        asked = self.batches.own(step) if kept else self._own_colors(images)
        with torch.no_grad(), evaluating(self.model):
            answers = self.model(asked)
        return self._shuffled(answers, step) if self.batches.recipe.shuffled_teacher else answers

    def _shuffled(self, answers: Logits, step: int) -> Logits:
        """In the whole batch, so that several processes shuffle as one does."""
        here, shown = processes(), self.batches.shown_at(step)
        chance = torch.Generator().manual_seed(seed_of(self.seed, step, "teacher"))
        labels = self.batches.labels[shown.to(self.batches.labels.device)].cpu()
        chosen = same_label_partners(labels, chance)[here.rank :: here.count]
        whole = answers.new_zeros(len(shown), answers.shape[1])
        whole[here.rank :: here.count] = answers
        return here.sum(whole)[chosen.to(whole.device)]


def same_label_partners(
    labels: Int64[Tensor, "batch"], chance: torch.Generator
) -> Int64[Tensor, "batch"]:
    """For each image another one of its label, every image once; itself if there is no other."""
    partners = torch.empty_like(labels)
    for label in labels.unique():
        same = (labels == label).nonzero().squeeze(1)
        ring = same[torch.randperm(len(same), generator=chance)]
        partners[ring] = ring.roll(1)
    return partners
