"""What the chapter on fine-tuning measures, and how well a score orders what it scores."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from typing import Annotated, NamedTuple

import torch
import typer
from jaxtyping import Float, Int64
from torch import Tensor, nn

from vitbook import datasets
from vitbook.errors import UnknownNameError
from vitbook.model_utilities import weights_digest
from vitbook.models import create_model, list_models
from vitbook.models.weights.formats import ENDINGS
from vitbook.runs.measuring import Sheet, measurement
from vitbook.training.asked import DataName, Share
from vitbook.training.transfer.few_shot import NEIGHBOURS
from vitbook.training.transfer.frozen_readers import READ, checked_size, frozen_body, kept_features
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
    num_classes: int,
    folds: int = FOLDS,
) -> TransferScore:
    """Score features by cross-validation: each fold of images is read by what the others teach.

    No held-out image is asked, so the choice of a checkpoint by this score leaves the test clean.
    The first image of each class is in the first fold, the second in the second, and so on.
    Renggli et al. 2022, "Which model to transfer?", compare such scores with fine-tuning.

    Args:
        features: a row for each training image, of one frozen body.
        labels: their classes, each with two images at least.

    Raises:
        ValueError: a class with one image.
    """
    labels = labels.long()
    fold = in_folds(labels, num_classes, folds)
    ridge, penalty = _ridge(features, labels, fold, num_classes)
    nearest = torch.empty_like(labels)
    for each in fold.unique():
        out = fold == each
        known = features[~out], labels[~out], features[out]
        number = min(NEIGHBOURS, int((~out).sum()))
        nearest[out] = neighbours(*known, number, num_classes).argmax(dim=1)
    return TransferScore(ridge, right_share(nearest, labels), penalty)


@torch.no_grad()
def projected_scores(
    features: Float[Tensor, "n features"],
    labels: Int64[Tensor, "n"],
    width: int,
    num_classes: int,
    draws: int = 5,
) -> tuple[float, ...]:
    """The ridge's score on ``width`` random combinations of the features, drawn ``draws`` times.

    Bodies of different widths then give as many numbers for an image: what is left of a lead does
    not come from the width. Each feature is brought to mean 0 and deviation 1 before, so that none
    is loud in all combinations; the weights of a combination are normal (Johnson and Lindenstrauss
    1984), by seeds 0, 1, ...

    Raises:
        ValueError: a class with one image, or more combinations than features.
    """
    if width > features.shape[1]:
        raise ValueError(
            f"{width!r} combinations of {features.shape[1]} features: expected a whole number from "
            "1 to as many"
        )
    labels, features = labels.long(), features.double()
    fold = in_folds(labels, num_classes, FOLDS)
    scaled = (features - features.mean(dim=0)) / (features.std(dim=0, correction=0) + FLOOR)
    scores = []
    for seed in range(draws):
        generator = torch.Generator().manual_seed(seed)
        mix = torch.randn(features.shape[1], width, dtype=torch.float64, generator=generator)
        combined = scaled @ mix.to(scaled.device) / width**0.5
        scores.append(_ridge(combined, labels, fold, num_classes)[0])
    return tuple(scores)


def in_folds(
    labels: Int64[Tensor, "n"], num_classes: int, folds: int = FOLDS
) -> Int64[Tensor, "n"]:
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
    return right_share(read, labels), penalty


def right_share(read: Int64[Tensor, "n"], labels: Int64[Tensor, "n"]) -> float:
    return (read == labels).double().mean().item()


def _lines(rows: list[dict]) -> list[dict[str, str]]:
    return [
        {
            "model": row["model"],
            "pixels": str(row["image_size"]),
            "ridge": f"{row['ridge']:.1%}",
            "neighbours": f"{row['neighbours']:.1%}",
            **(
                {"ridge of mixes": _mean(row["ridge_projected"])}
                if "ridge_projected" in row
                else {}
            ),
            "learned from": row["learned_from"],
        }
        for row in rows
    ]


def _mean(scores: list[float]) -> str:
    return f"{sum(scores) / len(scores):.1%}"


@measurement(transfer_scores=_lines)
def rank(
    sheet: Sheet,
    dataset: DataName,
    models: Annotated[
        list[str],
        typer.Argument(
            help="Names from `vitbook weights list`, timm's, checkpoints; of the catalogue for "
            "fresh weights. NAME@84 gives it images of 84 pixels."
        ),
    ],
    share: Share = 1.0,
    width: Annotated[
        int | None,
        typer.Option(min=1, help="Let ridge read so many random mixes of the features, too."),
    ] = None,
) -> None:
    """Score frozen bodies on the training images, to choose the one that is worth fine-tuning."""
    sheet.expect(dataset)
    asked = [_named(word) for word in models]
    train = datasets.take_share(datasets.load(dataset, "train"), share)

    def row(name: str, body: nn.Module, normalize: Callable, size: int) -> dict:
        read = kept_features(body.to(sheet.device), normalize, size, sheet.folder, name)
        features = read(train.images)
        score = transfer_score(features, train.labels, train.num_classes)
        found = {"ridge": score.ridge, "neighbours": score.neighbours, "penalty": score.penalty}
        if width is not None:
            projected = projected_scores(features, train.labels, width, train.num_classes)
            found["ridge_projected"] = [round(each, 4) for each in projected]
        return found

    rows, seen = [], set()
    for name, size in asked:
        body, normalize, about = ranked_body(name, size)
        side = checked_size(name, body, train)
        if (name, side) in seen:  # by its own size too, as NAME@8 may be
            raise ValueError(f"{name} of {side} pixels is there twice: name each model once")
        seen.add((name, side))
        key = f"{name} {side} {about['weights']}"
        found = sheet.once(key, row, name, body, normalize, side)
        rows.append({"model": name, "image_size": side} | found | about)
    settings = {
        "dataset": train.provenance["name"], "share": share, "training_images": len(train),
        "features": READ, "folds": FOLDS, "neighbours": NEIGHBOURS,
        "read": "each fold by what the others teach; no held-out image was asked",
        **({} if width is None else {"projected_width": width}),
    }  # fmt: skip
    sheet.write(dataset, settings, sorted(rows, key=lambda row: -row["ridge"]))


def _named(word: str) -> tuple[str, int | None]:
    """A model's name, and the pixels behind its last @, if there are any."""
    name, at, pixels = word.rpartition("@")
    if not at or word.endswith(ENDINGS):  # a file, whose folder may hold an @
        return word, None
    if not pixels.isdecimal() or not name:
        raise ValueError(f"{word}: expected a name, or a name and pixels such as {name or 'X'}@84")
    return name, int(pixels)


def ranked_body(
    name: str, size: int | None
) -> tuple[nn.Module, Callable[[Tensor], Tensor], dict[str, str]]:
    """As :func:`frozen_body`; a name of the catalogue has fresh weights of seed 0."""
    if name not in list_models():
        try:
            return frozen_body(name, size)
        except UnknownNameError as error:
            raise UnknownNameError("weights, checkpoint or model", name, list_models()) from error
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = create_model(name, image_size=size).eval()
    about = {"weights": weights_digest(model), "learned_from": "nothing"}
    return model, datasets.normalize, about


class Agreement(NamedTuple):
    """What a score says of pairs whose truths differ."""

    right: int
    wrong: int
    pairs: int  # right, wrong, and those that the score ties
    tau: float | None  # Kendall's tau-b; None where a score or a truth says nothing

    @property
    def words(self) -> str:
        return f"{self.right} of {self.pairs} pairs"


def agreement(scores: Sequence[float | int | None], truths: Sequence[float | int]) -> Agreement:
    r"""Count the pairs that a score puts in the right order.

    Kendall (1945), "The treatment of ties in ranking problems":
    :math:`\tau_b = (right - wrong) / \sqrt{n_s n_t}`, with the numbers of pairs that the scores do
    not tie, and that the truths do not tie. What has no score is left out.
    """
    known = [(s, t) for s, t in zip(scores, truths, strict=True) if s is not None]
    right = wrong = apart = pairs = 0
    for (score, truth), (other, its) in combinations(known, 2):
        way = ((score > other) - (score < other)) * ((truth > its) - (truth < its))
        right, wrong = right + (way > 0), wrong + (way < 0)
        apart, pairs = apart + (score != other), pairs + (truth != its)
    tau = (right - wrong) / sqrt(apart * pairs) if apart and pairs else None
    return Agreement(right, wrong, pairs, tau)
