"""What frozen features promise of fine-tuning, told from training images alone."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from vitbook.errors import is_whole_number
from vitbook.training.transfer.examples import check_examples
from vitbook.training.transfer.few_shot import NEIGHBOURS
from vitbook.training.transfer.neighbours import neighbours
from vitbook.training.transfer.ridge import FLOOR, RidgePath

FOLDS = 10


@dataclass(frozen=True)
class TransferScore:
    """How often readers of frozen features are right about images that they have not seen.

    Attributes:
        ridge: of a linear layer in closed form, 0 to 1.
        neighbours: of up to 20 nearest neighbours, 0 to 1.
        penalty: of the ridge, chosen on the same folds.
    """

    ridge: float
    neighbours: float
    penalty: float


@torch.no_grad()
def transfer_score(
    features: Float[Tensor, "n features"],
    labels: Int64[Tensor, "n"],
    num_classes: int | None = None,
    folds: int = FOLDS,
) -> TransferScore:
    """Score features by cross-validation: each fold of images is read by what the others teach.

    No held-out image is asked, so the choice of a checkpoint by this score leaves the test clean.
    The first image of each class is in the first fold, the second in the second, and so on.
    Renggli et al. 2022, "Which model to transfer?", compare such scores with fine-tuning.

    Args:
        features: a row for each training image, of one frozen body.
        labels: their classes, each with two images at least.
        num_classes: by default as many as the largest label tells.
        folds: of the images, 2 or more.

    Raises:
        TypeError, ValueError: features or labels that
            :func:`~vitbook.training.transfer.examples.check_examples` refuses.
        ValueError: fewer than 2 folds, or a class with fewer than 2 images.

    Example:
        >>> from vitbook import datasets
        >>> from vitbook.training import transfer_score
        >>> digits = datasets.load("digits", "train")
        >>> score = transfer_score(digits.images.flatten(1) / 255, digits.labels)
        >>> score.ridge < score.neighbours
        True
    """
    num_classes = check_examples(features, labels, num_classes)
    if not is_whole_number(folds) or folds < 2:
        raise ValueError(f"{folds!r} folds: expected a whole number from 2 on")
    labels = labels.long()
    fold = _folds(labels, num_classes, folds)
    ridge, penalty = _ridge(features, labels, fold, num_classes)
    nearest = torch.empty_like(labels)
    for each in fold.unique():
        out = fold == each
        known = features[~out], labels[~out], features[out]
        number = min(NEIGHBOURS, int((~out).sum()))
        nearest[out] = neighbours(*known, number, num_classes).argmax(dim=1)
    return TransferScore(ridge, _right(nearest, labels), penalty)


def _folds(labels: Int64[Tensor, "n"], num_classes: int, folds: int) -> Int64[Tensor, "n"]:
    counts = labels.bincount(minlength=num_classes)
    if counts[counts > 0].min() < 2:
        raise ValueError(
            f"class {int((counts == 1).nonzero()[0])} has one image: expected two or more, so that "
            "one can be left out"
        )
    order = labels.argsort(stable=True)
    rank = torch.arange(len(labels), device=labels.device)
    fold = torch.empty_like(labels)
    fold[order] = (rank - (counts.cumsum(0) - counts)[labels[order]]) % folds
    return fold


def _ridge(
    features: Float[Tensor, "n features"],
    labels: Int64[Tensor, "n"],
    fold: Int64[Tensor, "n"],
    num_classes: int,
) -> tuple[float, float]:
    """How often it is right, and the penalty that was chosen."""
    path = RidgePath(features, labels, num_classes)
    penalty = path.best(fold).penalty
    # In float32, as features that say nothing leave ties, and the last bits of float64 know the
    # label that was taken out.
    read = path.left_out_logits(penalty, fold).float().argmax(dim=1)
    return _right(read, labels), penalty


def _right(read: Int64[Tensor, "n"], labels: Int64[Tensor, "n"]) -> float:
    return (read == labels).double().mean().item()


@torch.no_grad()
def projected_scores(
    features: Float[Tensor, "n features"],
    labels: Int64[Tensor, "n"],
    width: int,
    num_classes: int | None = None,
    draws: int = 5,
) -> tuple[float, ...]:
    """The ridge's score on ``width`` random combinations of the features, drawn ``draws`` times.

    Bodies of different widths then give as many numbers for an image: what is left of a lead does
    not come from the width. Each feature is brought to mean 0 and deviation 1 before, so that none
    is loud in all combinations; the weights of a combination are normal (Johnson and Lindenstrauss
    1984), by seeds 0, 1, ...

    Args:
        features: as :func:`transfer_score` takes them, at least ``width`` wide.
        labels: likewise.
        width: combinations, 1 or more.

    Raises:
        TypeError, ValueError: what :func:`transfer_score` refuses.
        ValueError: a width that is not from 1 to the number of features; no draws.
    """
    num_classes = check_examples(features, labels, num_classes)
    if not is_whole_number(width) or not 1 <= width <= features.shape[1]:
        raise ValueError(
            f"{width!r} combinations of {features.shape[1]} features: expected a whole number from "
            "1 to as many"
        )
    if not is_whole_number(draws) or draws < 1:
        raise ValueError(f"{draws!r} draws: expected a whole number from 1 on")
    labels, features = labels.long(), features.double()
    fold = _folds(labels, num_classes, FOLDS)
    scaled = (features - features.mean(dim=0)) / (features.std(dim=0, correction=0) + FLOOR)
    scores = []
    for seed in range(draws):
        generator = torch.Generator().manual_seed(seed)
        mix = torch.randn(features.shape[1], width, dtype=torch.float64, generator=generator)
        combined = scaled @ mix.to(scaled.device) / width**0.5
        scores.append(_ridge(combined, labels, fold, num_classes)[0])
    return tuple(scores)
