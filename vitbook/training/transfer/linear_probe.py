"""What a frozen body knows: one linear layer on its tokens, and nothing else trained."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from vitbook.errors import first_few
from vitbook.extras import from_extra
from vitbook.training.transfer.examples import check_examples, check_finite, count_classes

# Inverse strengths of the penalty on the weights, of features with unit spread.
STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
HELD_OUT = 0.1
FOLDS = 5


@dataclass(frozen=True)
class LinearProbe:
    """A linear layer on features, and how it was chosen.

    Attributes:
        weight: of the features as they come, unscaled.
        bias: likewise.
        strength: inverse strength of the penalty, the best on the part held out of the training.
        tried: each strength and its accuracy on that part, 0 to 1.
        recall: share of each class's training images that a fit on the other four fifths of the
            training data gets right.
    """

    weight: Float[Tensor, "classes features"]
    bias: Float[Tensor, "classes"]
    strength: float
    tried: dict[float, float]
    recall: tuple[float, ...]

    def logits(self, features: Float[Tensor, "n features"]) -> Float[Tensor, "n classes"]:
        return features @ self.weight.T + self.bias


def check_labels(labels: Int64[Tensor, "n"], num_classes: int | None = None) -> None:
    """Refuse labels on which no penalty can be chosen, before hours go into features.

    Args:
        num_classes: that the data set names; by default as many as the largest label tells.

    Raises:
        TypeError, ValueError: labels that :func:`~.examples.count_classes` refuses.
        ValueError: a class without an image (the rows of the head would move up), too few images
            of a class for the folds, or too few in all for a tenth of them to hold every class.
    """
    counts = labels.bincount(minlength=count_classes(labels, num_classes))
    absent = (counts == 0).nonzero().flatten().tolist()
    if absent:
        raise ValueError(
            f"no image of class {first_few(map(str, absent))}: expected some of each of the "
            f"{len(counts)} classes; take a larger share, or name the classes that are there "
            "from 0 on"
        )
    fewest = int(counts.min())
    if fewest < FOLDS or len(labels) * HELD_OUT < len(counts):
        raise ValueError(
            f"{len(labels)} images of {len(counts)} classes, the rarest with {fewest}: expected "
            f"{FOLDS} images of each, and {len(counts) / HELD_OUT:.0f} in all; "
            "take a larger share"
        )


def fit_linear_probe(
    features: Float[Tensor, "n features"],
    labels: Int64[Tensor, "n"],
    seed: int = 0,
    num_classes: int | None = None,
) -> LinearProbe:
    """Logistic regression, its penalty chosen on a tenth of the training data.

    Then it is fitted again on all of them. Features are brought to mean 0 and spread 1 by the
    training data; the returned layer takes them as they come.

    Args:
        features: in any precision; fitted in float32, on the CPU.
        seed: of the held-out tenth and of the folds, 0 to 2^32 - 1.
        num_classes: rows of the layer; by default as many as the largest label tells.

    Raises:
        TypeError, ValueError: labels that :func:`check_labels` refuses, or features that
            :func:`~.examples.check_examples` does.
        MissingPackageError: scikit-learn is not installed.
    """
    check_labels(labels, num_classes)
    check_examples(features, labels, num_classes)
    features, labels = features.detach().cpu().float(), labels.cpu()
    with from_extra("data"):
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import StratifiedKFold, cross_val_predict, train_test_split

    mean = features.mean(dim=0)
    spread = features.std(dim=0).clamp_min(1e-6)
    scaled, known = ((features - mean) / spread).numpy(), labels.numpy()
    parts = train_test_split(scaled, known, test_size=HELD_OUT, stratify=known, random_state=seed)

    def regression(strength: float) -> LogisticRegression:
        return LogisticRegression(C=strength, max_iter=1000, tol=1e-3)

    tried = {
        strength: float(regression(strength).fit(parts[0], parts[2]).score(parts[1], parts[3]))
        for strength in STRENGTHS
    }
    best = max(tried, key=tried.get)
    model = regression(best).fit(scaled, known)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    right = cross_val_predict(regression(best), scaled, known, cv=folds) == known
    recall = tuple(float(right[known == label].mean()) for label in model.classes_)
    weight, bias = (torch.from_numpy(each).float() for each in (model.coef_, model.intercept_))
    if len(model.classes_) == 2:  # scikit-learn keeps one row for two classes
        weight, bias = (torch.cat([-each, each]) / 2 for each in (weight, bias))
    return LinearProbe(weight / spread, bias - (weight / spread) @ mean, best, tried, recall)


def accuracy_interval(
    logits: Float[Tensor, "n classes"], labels: Int64[Tensor, "n"]
) -> list[float]:
    """Top-1 accuracy and the ends of its 95 % interval (Wilson's), each 0 to 1.

    Raises:
        ValueError: no images, not one label for each row of logits, or logits with NaN or
            infinity.
    """
    if logits.ndim != 2 or not logits.numel() or len(logits) != len(labels):
        raise ValueError(
            f"logits of shape {tuple(logits.shape)} with {len(labels)} labels: expected (images, "
            "classes), one image at least, and one label an image"
        )
    check_finite(logits, "logits")
    return share_interval(int((logits.argmax(dim=1) == labels).sum()), len(labels))


def share_interval(hits: int, images: int) -> list[float]:
    """A share of images and the ends of its 95 % interval (Wilson's), each 0 to 1."""
    with from_extra("data"):
        from scipy.stats import binomtest  # scikit-learn brings it

    found = binomtest(hits, images).proportion_ci(method="wilson")
    return [hits / images, float(found.low), float(found.high)]
