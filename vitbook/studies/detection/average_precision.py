"""Average precision of boxes, as COCO counts it, and how many answers an object gets."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from vitbook.studies.detection.boxes import corners, overlaps
from vitbook.studies.detection.canvases import Objects
from vitbook.studies.detection.detector import Answers

THRESHOLDS = np.linspace(0.5, 0.95, 10)  # of IoU
RECALLS = np.linspace(0, 1, 101)
CONFIDENT = 0.5


@dataclass(frozen=True)
class Found:
    """What was answered to one image: for each query its likeliest class, "no object" left out.

    Attributes:
        scores: probability of that class.
        labels: that class.
        boxes: as :class:`~.canvases.Objects` has them.
    """

    scores: Float[Tensor, "answers"]
    labels: Int64[Tensor, "answers"]
    boxes: Float[Tensor, "answers 4"]


def found_by(answers: Answers) -> list[Found]:
    """The answers of a detector, image by image, on the CPU."""
    scores, labels = answers.logits.float().softmax(dim=-1)[..., :-1].max(dim=-1)
    parts = (each.detach().cpu() for each in (scores, labels, answers.boxes.float()))
    return [Found(*each) for each in zip(*parts, strict=True)]


@dataclass(frozen=True)
class Precision:
    """Average precision, from 0 to 1.

    Attributes:
        ap50: a box is right from an IoU of 0.5 on.
        ap: the mean over IoU thresholds of 0.5, 0.55 ... 0.95.
    """

    ap50: float
    ap: float


class Judged:
    """Answers to a set of images, held against what is there.

    An answer is right at a threshold if an object of its class, in its image, has so large an IoU
    with it and belongs to no surer answer; of several the one with the largest IoU is taken. Lin et
    al. 2014, "Microsoft COCO", and the evaluation code that comes with it, for boxes of all sizes.

    Args:
        found: of each image.
        objects: of each image.

    Raises:
        ValueError: no objects in any image, or answers of another number of images.
    """

    def __init__(self, found: Sequence[Found], objects: Sequence[Objects]):
        if len(found) != len(objects):
            raise ValueError(f"answers to {len(found)} images, objects of {len(objects)}")
        if not any(map(len, objects)):
            raise ValueError(
                f"{len(objects)} images without any object: average precision asks for at least one"
            )
        self.num_images = len(objects)
        right = [_right(each, there) for each, there in zip(found, objects, strict=True)]
        self._right = torch.cat(right).numpy()  # answers x thresholds
        self._scores = torch.cat([each.scores for each in found]).numpy()
        self._labels = torch.cat([each.labels for each in found]).numpy()
        self._images = np.repeat(np.arange(len(found)), [len(each.scores) for each in found])
        self._wanted = np.concatenate([each.labels.numpy() for each in objects])
        self._wanted_in = np.repeat(np.arange(len(objects)), [*map(len, objects)])

    def precision(self, times: np.ndarray | None = None) -> Precision:
        """Of all images; or of each so many times, as a bootstrap draws them.

        The mean over the classes of which there is an object.
        """
        times = np.ones(self.num_images) if times is None else times
        wanted = times[self._wanted_in]
        of_classes = []
        for label in np.unique(self._wanted):
            number = float(wanted[self._wanted == label].sum())
            if number:
                mine = np.flatnonzero(self._labels == label)
                mine = mine[np.argsort(-self._scores[mine], kind="stable")]
                of_classes.append(_area(self._right[mine], times[self._images[mine]], number))
        if not of_classes:
            return Precision(0.0, 0.0)
        of_thresholds = np.mean(of_classes, axis=0)
        return Precision(float(of_thresholds[0]), float(of_thresholds.mean()))

    def intervals(self, resamples: int = 200, seed: int = 0) -> dict[str, list[float]]:
        """``ap50`` and ``ap``, each with the ends of its 95 % interval.

        Percentiles of a bootstrap: the images are drawn again, with replacement.
        """
        dice, even = np.random.default_rng(seed), np.full(self.num_images, 1 / self.num_images)
        drawn = [self.precision(dice.multinomial(self.num_images, even)) for _ in range(resamples)]
        whole, told = self.precision(), {}
        for name in ("ap50", "ap"):
            low, high = np.quantile([getattr(each, name) for each in drawn], [0.025, 0.975])
            told[name] = [round(float(n), 4) for n in (getattr(whole, name), low, high)]
        return told


def _right(found: Found, there: Objects) -> Bool[Tensor, "answers thresholds"]:
    right = torch.zeros(len(found.scores), len(THRESHOLDS), dtype=torch.bool)
    if not len(there) or not len(found.scores):
        return right
    shared, _ = overlaps(corners(found.boxes.double())[:, None], corners(there.boxes.double()))
    shared = shared.where(found.labels[:, None] == there.labels, -1.0).numpy()
    free = np.ones((len(THRESHOLDS), len(there)), bool)
    for answer in (-found.scores).argsort(stable=True).tolist():
        mine = np.where(free, shared[answer], -1.0)
        hit, best = mine.max(axis=1) >= THRESHOLDS, mine.argmax(axis=1)
        right[answer] = torch.from_numpy(hit)
        free[hit, best[hit]] = False
    return right


def _area(right: np.ndarray, times: np.ndarray, number: float) -> np.ndarray:
    """Precision at 101 recalls, the best at that recall or a higher one, and its mean."""
    hits = (right * times[:, None]).cumsum(axis=0)
    precision = hits / np.maximum(times.cumsum(), np.finfo(float).eps)[:, None]
    precision = np.maximum.accumulate(precision[::-1], axis=0)[::-1]
    found = []
    for recall, height in zip((hits / number).T, precision.T, strict=True):
        places = np.searchsorted(recall, RECALLS, side="left")
        found.append(np.append(height, 0.0)[np.minimum(places, len(height))].mean())
    return np.array(found)


def duplicates(found: Sequence[Found], objects: Sequence[Objects]) -> float:
    """Sure answers to an object beyond its first one, on average over the objects.

    An answer is sure from a probability of 0.5 on, and is one to the object with which it shares
    the most, if that is an IoU of 0.5 or more, whatever its class.
    """
    extra = 0
    for each, there in zip(found, objects, strict=True):
        sure = each.scores >= CONFIDENT
        if len(there) and sure.any():
            shared, _ = overlaps(corners(each.boxes[sure])[:, None], corners(there.boxes))
            most, which = shared.max(dim=1)
            told = which[most >= 0.5].bincount(minlength=len(there))
            extra += int((told - 1).clamp(min=0).sum())
    return extra / max(1, sum(map(len, objects)))
