"""How much frozen features say of a class after a few images of it."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from vitbook.errors import UnknownNameError, first_few, is_whole_number
from vitbook.extras import from_extra
from vitbook.training.transfer.examples import check_examples, count_classes
from vitbook.training.transfer.neighbours import neighbours
from vitbook.training.transfer.ridge import PENALTIES, REFERENCE_PENALTY, RidgePath

SHOTS = (1, 2, 5, 10, 20, 50, 100)
READERS = ("ridge", "neighbours")
# Neighbours that vote, or all images where fewer are drawn.
NEIGHBOURS = 20


@dataclass(frozen=True)
class FewShotScore:
    """How often a reader of features is right after so many images of each class.

    Attributes:
        reader: one of ``READERS``, "ridge" or "neighbours".
        shots: training images of each class.
        accuracy: mean over the draws, and the ends of its 95 % interval, 0 to 1: Student's t over
            the draws. It says what other training images would have changed, not what other test
            images would.
        draws: accuracy after each draw.
        penalties: of the ridge of each draw; empty for neighbours.
    """

    reader: str
    shots: int
    accuracy: tuple[float, float, float]
    draws: tuple[float, ...]
    penalties: tuple[float, ...]


def check_shots(
    labels: Int64[Tensor, "n"], shots: Sequence[int], num_classes: int | None = None
) -> None:
    """Refuse numbers of shots that cannot be drawn, before hours go into features.

    Raises:
        TypeError, ValueError: labels that
            :func:`~vitbook.training.transfer.examples.count_classes` refuses.
        ValueError: no shots, one that is no whole number from 1 on, or more than a class has.
    """
    number = count_classes(labels, num_classes)
    if not shots or not all(is_whole_number(each) and each >= 1 for each in shots):
        raise ValueError(f"shots {list(shots)}: expected whole numbers from 1 on, as 1, 5, 10")
    counts = labels.long().bincount(minlength=number).tolist()
    poor = [f"{label} has {count:,}" for label, count in enumerate(counts) if count < max(shots)]
    if poor:
        raise ValueError(
            f"{max(shots)} images of each class, but class {first_few(poor)}: ask for fewer shots, "
            "or take a larger share of the data"
        )


def draw_shots(
    labels: Int64[Tensor, "n"], shots: int, seed: int = 0, num_classes: int | None = None
) -> Int64[Tensor, "drawn"]:
    """Places of as many images of each class, class after class.

    With one seed a smaller draw lies inside a larger one: the first image of a class stays first.

    Args:
        shots: images of each class.
        num_classes: by default as many as the largest label tells.

    Raises:
        TypeError, ValueError: as :func:`check_shots`.

    Example:
        >>> import torch
        >>> from vitbook.training.transfer.few_shot import draw_shots
        >>> labels = torch.tensor([0, 1, 0, 1, 0, 1])
        >>> one, two = draw_shots(labels, 1), draw_shots(labels, 2)
        >>> labels[two].tolist(), set(one.tolist()) <= set(two.tolist())
        ([0, 0, 1, 1], True)
    """
    check_shots(labels, (shots,), num_classes)
    generator = torch.Generator().manual_seed(seed)
    drawn = []
    for label in range(count_classes(labels, num_classes)):
        own = (labels.cpu() == label).nonzero().flatten()
        drawn.append(own[torch.randperm(len(own), generator=generator)[:shots]])
    return torch.cat(drawn)


def few_shot_curve(
    train_features: Float[Tensor, "n features"],
    train_labels: Int64[Tensor, "n"],
    test_features: Float[Tensor, "test features"],
    test_labels: Int64[Tensor, "test"],
    shots: Sequence[int] = SHOTS,
    draws: int = 5,
    num_classes: int | None = None,
    readers: Sequence[str] = READERS,
) -> list[FewShotScore]:
    """Accuracy of ridge regression and of the nearest neighbours after a few images of each class.

    The test images say nothing of the penalty. It is the best of ``ridge.PENALTIES`` where one
    image of each class is left out at a time, see
    :class:`~vitbook.training.transfer.ridge.RidgePath`. Of one image a class none can be left out:
    there it is the 2^10 of the reference.

    Args:
        train_features: of all training images; the shots are drawn from them. A row an image, from
            any model: what ``frozen_features`` gives of ours, or what another answers.
        test_features: of all held-out images; every draw is scored on each.
        shots: training images of each class.
        draws: seeds 0, 1, ... of :func:`draw_shots`.
        num_classes: by default as many as the largest label of training tells.
        readers: some of ``READERS``, by default both.

    Returns:
        For each number of shots a score of each reader.

    Raises:
        TypeError, ValueError: features or labels that
            :func:`~vitbook.training.transfer.examples.check_examples` refuses, shots that
            :func:`check_shots` refuses, features of two widths, or fewer than 2 draws, which have
            no interval.
        UnknownNameError: a reader that is neither.
        MissingPackageError: scipy is not installed.

    Example:
        >>> from vitbook import datasets
        >>> from vitbook.training.transfer.few_shot import few_shot_curve
        >>> train, test = (datasets.load("digits", split) for split in ("train", "test"))
        >>> pixels, seen = (each.images.flatten(1) / 255 for each in (train, test))
        >>> for score in few_shot_curve(pixels, train.labels, seen, test.labels, shots=(1, 50)):
        ...     print(score.reader, score.shots, score.accuracy[0] > 0.9)
        ridge 1 False
        neighbours 1 False
        ridge 50 True
        neighbours 50 True
    """
    num_classes = check_examples(train_features, train_labels, num_classes)
    check_examples(test_features, test_labels, num_classes)
    if test_features.shape[1] != train_features.shape[1]:
        raise ValueError(
            f"{train_features.shape[1]} features in training, {test_features.shape[1]} in the "
            "test: expected those of one model"
        )
    check_shots(train_labels, shots, num_classes)
    if not is_whole_number(draws) or draws < 2:
        raise ValueError(f"{draws!r} draws: expected a whole number from 2 on, for an interval")
    answer = {"ridge": _ridge, "neighbours": _votes}
    for reader in readers:
        if reader not in answer:
            raise UnknownNameError("reader", reader, READERS)
    found = []
    for each in shots:
        drawn = [draw_shots(train_labels, each, seed, num_classes) for seed in range(draws)]
        for reader in readers:
            right, penalties = [], []
            for rows in drawn:
                known = train_features[rows], train_labels[rows]
                answers, penalty = answer[reader](*known, test_features, each, num_classes)
                right.append((answers.argmax(dim=1) == test_labels).double().mean().item())
                penalties += penalty
            interval = t_interval(right)
            found.append(FewShotScore(reader, each, interval, tuple(right), tuple(penalties)))
    return found


def _ridge(
    known: Tensor, labels: Tensor, test: Tensor, shots: int, num_classes: int
) -> tuple[Tensor, tuple[float, ...]]:
    path = RidgePath(known, labels, num_classes)
    if shots == 1:
        layer = path.layer(REFERENCE_PENALTY)
    else:  # as they were drawn: the first of each class, the second of each class, ...
        folds = torch.arange(shots, device=labels.device).repeat(num_classes)
        layer = path.best(folds, PENALTIES)
    return layer.logits(test), (layer.penalty,)


def _votes(
    known: Tensor, labels: Tensor, test: Tensor, shots: int, num_classes: int
) -> tuple[Tensor, tuple[float, ...]]:
    return neighbours(known, labels, test, min(NEIGHBOURS, len(known)), num_classes), ()


def t_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean of shares and the ends of its 95 % interval by Student's t, inside 0 to 1.

    Raises:
        MissingPackageError: scipy is not installed.
    """
    with from_extra("data"):
        from scipy.stats import t  # scikit-learn brings it

    given = torch.tensor(values, dtype=torch.float64)
    mean = float(given.mean())
    half = float(t.ppf(0.975, len(values) - 1) * given.std() / len(values) ** 0.5)
    return mean, max(mean - half, 0.0), min(mean + half, 1.0)
