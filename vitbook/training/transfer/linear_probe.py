"""What a frozen body knows: one linear layer on its tokens, and nothing else trained."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from vitbook.errors import first_few, is_whole_number
from vitbook.extras import from_extra
from vitbook.training.transfer.examples import check_finite

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
        check_finite(features, "features")
        return features @ self.weight.T + self.bias


def check_labels(labels: Int64[Tensor, "n"], num_classes: int | None = None) -> None:
    """Refuse labels on which no penalty can be chosen, before hours go into features.

    Args:
        num_classes: that the data set names; by default as many as the largest label tells.

    Raises:
        TypeError: labels that are no whole numbers.
        ValueError: a label outside the classes, a class without an image (the rows of the head
            would move up), fewer than two classes, too few images of a class for the folds, or
            too few in all for a tenth of them to hold every class.
    """
    _check_indices(labels, num_classes)
    counts = labels.bincount(minlength=num_classes or 0)
    absent = (counts == 0).nonzero().flatten().tolist()
    if absent:
        raise ValueError(
            f"no image of class {first_few(map(str, absent))}: expected some of each of the "
            f"{len(counts)} classes; take a larger share, or name the classes that are there "
            "from 0 on"
        )
    fewest = int(counts.min()) if len(counts) else 0
    if len(counts) < 2 or fewest < FOLDS or len(labels) * HELD_OUT < len(counts):
        raise ValueError(
            f"{len(labels)} images of {len(counts)} classes, the rarest with {fewest}: expected 2 "
            f"classes or more, {FOLDS} images of each, and {len(counts) / HELD_OUT:.0f} in all; "
            "take a larger share"
        )


def _check_tensor(name: str, given: object) -> None:
    if not isinstance(given, Tensor):
        raise TypeError(f"{name} came as {type(given).__name__}: expected a tensor")


def _check_indices(labels: Tensor, num_classes: int | None) -> None:
    _check_tensor("labels", labels)
    if labels.ndim != 1 or labels.dtype not in (torch.int64, torch.int32, torch.int16, torch.uint8):
        kind = str(labels.dtype).removeprefix("torch.")
        raise TypeError(
            f"labels are {kind} of shape {tuple(labels.shape)}: expected one whole number an "
            "image, labels.long()"
        )
    most = "" if num_classes is None else f" to {num_classes - 1}"
    if len(labels) and (
        labels.min() < 0 or (num_classes is not None and labels.max() >= num_classes)
    ):
        raise ValueError(
            f"labels from {labels.min()} to {labels.max()}: expected 0{most or ' or more'}; they "
            "count the classes from 0"
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
        TypeError, ValueError: labels that :func:`check_labels` refuses.
        TypeError: features that are no floating point.
        ValueError: not one label for each row of features; features that are not finite, or so
            large that their spread is not; a seed that is none.
        MissingPackageError: scikit-learn is not installed.
    """
    check_labels(labels, num_classes)
    _check_tensor("features", features)
    if not features.is_floating_point():
        raise TypeError(f"features are {features.dtype}: expected floating point, features.float()")
    if features.ndim != 2 or len(features) != len(labels) or not features.shape[1]:
        raise ValueError(
            f"features of shape {tuple(features.shape)} with {len(labels)} labels: expected "
            "(images, features), one label an image"
        )
    if not is_whole_number(seed) or not 0 <= seed < 2**32:
        raise ValueError(f"seed {seed!r}: expected a whole number from 0 to {2**32 - 1}")
    features, labels = features.detach().cpu().float(), labels.cpu()
    check_finite(features, "features")
    with from_extra("data"):
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import StratifiedKFold, cross_val_predict, train_test_split

    mean = features.mean(dim=0)
    spread = features.std(dim=0).clamp_min(1e-6)
    if not (mean.isfinite().all() and spread.isfinite().all()):
        raise ValueError(
            f"features up to {features.abs().max():.3g} have no finite spread in float32: divide "
            "them by a number first"
        )
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
        TypeError: labels that are no whole numbers.
        ValueError: no images, not one label for each row of logits, a label outside the classes,
            or logits with NaN or infinity.
    """
    _check_tensor("logits", logits)
    _check_tensor("labels", labels)
    if logits.ndim != 2 or not logits.numel() or len(logits) != len(labels):
        raise ValueError(
            f"logits of shape {tuple(logits.shape)} with {len(labels)} labels: expected (images, "
            "classes), one image at least, and one label an image"
        )
    _check_indices(labels, logits.shape[1])
    check_finite(logits, "logits")
    with from_extra("data"):
        from scipy.stats import binomtest  # scikit-learn brings it

    right = int((logits.argmax(dim=1) == labels).sum())
    found = binomtest(right, len(labels)).proportion_ci(method="wilson")
    return [right / len(labels), float(found.low), float(found.high)]
