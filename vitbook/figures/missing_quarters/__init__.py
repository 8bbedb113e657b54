"""Four photographs in one image, taken away by the reader, and what each leaves of the logits."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from vitbook.analysis.capture.running import batches, logits_of
from vitbook.figures.parts.drawing import OKABE_ITO, as_array
from vitbook.figures.parts.figure import Figure
from vitbook.figures.parts.jpeg import jpeg
from vitbook.model_utilities import evaluating

_PLACES = ("top left", "top right", "bottom left", "bottom right")
_COMBINATIONS = 16  # bit q of a number from 0 to 15 says that quarter q is gone
_MOST_CLASSES = 8
_LEAST = 1.0  # of a logit's change that reaches a goal
_SEEN = 0.005  # a smaller change is 0.00 on the page
_ABOVE, _BELOW = OKABE_ITO[0], OKABE_ITO[4]


def missing_quarters(
    model: nn.Module,
    image,
    classes: Mapping[str, int],
    *,
    normalize: Callable[[Tensor], Tensor],
    labels: Sequence[str] | None = None,
    goal: tuple[str, str] | None = None,
    task: str | None = None,
    title: str = "A class falls without its own photograph, and may rise without another",
    description: str | None = None,
    start: int = 0,
) -> Figure:
    """An image whose quarters the reader takes away, and the logits of a few classes without them.

    A quarter that is gone has the image's mean colour, as for
    :func:`vitbook.analysis.quarter_drops`. All 16 answers are computed here.

    Args:
        model: gives logits, "batch classes"; left as it came.
        image: uint8 "3 height width" with even sides: four photographs, row by row, as
            :func:`vitbook.datasets.make_collages` makes them.
        classes: name -> number of a logit, at most eight, in the order of the bars.
        normalize: makes of uint8 images what the model takes.
        labels: of the four quarters, row by row; by default where they lie.
        goal: a name among ``classes`` and "up" or "down". The task is reached while the logit
            stands higher, or lower, by at least 1 than with all four there.
        task: a sentence above the figure.
        description: the caption; by default the finding in words.
        start: what is gone at the start, a sum: 1 for the first quarter, 2, 4 and 8 for the others.

    Raises:
        TypeError: ``normalize`` gives no floating point.
        ValueError: what came does not fit together; a model that gives no logits, or NaN; a goal
            that cannot be reached.
        MissingPackageError: Pillow is not installed.
    """
    image = as_array(image)
    if image.ndim != 3 or image.dtype != np.uint8 or image.shape[0] != 3:
        raise ValueError(
            f"image came as {image.dtype} of shape {image.shape}, expected uint8 (3, h, w): pass "
            "one image before it is normalised"
        )
    if not image.size or image.shape[1] % 2 or image.shape[2] % 2:
        raise ValueError(
            f"an image of {image.shape[1]}x{image.shape[2]} px has no four quarters of one size: "
            "expected even sides"
        )
    if not isinstance(classes, Mapping):
        raise ValueError(
            f"classes came as {type(classes).__name__}, expected a dict: name -> its number"
        )
    if not 1 <= len(classes) <= _MOST_CLASSES:
        raise ValueError(
            f"{len(classes)} classes came, expected 1 to {_MOST_CLASSES}: name -> its number"
        )
    if isinstance(labels, str):
        raise ValueError(f"labels came as the text {labels!r}, expected four: one for each quarter")
    labels = [str(label) for label in (_PLACES if labels is None else labels)]
    if len(labels) != 4:
        raise ValueError(f"{len(labels)} labels came, expected four: one for each quarter")
    if start not in range(_COMBINATIONS):
        raise ValueError(
            f"start came as {start}, expected 0 to 15: a sum of 1, 2, 4 and 8, one for each quarter"
        )
    names = [str(name) for name in classes]
    logits = _logits(model, image, classes, normalize).round(3)
    _check_goal(goal, names, logits)
    low, high = np.floor(min(logits.min(), 0)), np.ceil(max(logits.max(), 0))
    mean = image.mean((1, 2))
    data = {
        "image": jpeg(image), "size": list(image.shape[1:]), "labels": labels, "classes": names,
        "logits": logits.tolist(), "scale": [float(low), float(max(high, low + 1))],
        "mean": np.rint(mean).astype(int).tolist(), "ink": _ink_on(mean), "goal": goal,
        "least": _LEAST, "colors": [_BELOW, _ABOVE], "removed": int(start), "task": task or "",
    }  # fmt: skip
    finding = _finding(names, labels, logits)
    return Figure("missing_quarters", data, title, description or finding)


def _logits(
    model: nn.Module, image: np.ndarray, classes: Mapping[str, int], normalize: Callable
) -> np.ndarray:
    """Of the asked classes, without each combination of quarters: "16 classes", in float64."""
    whole = normalize(torch.from_numpy(image.copy())[None])
    if not isinstance(whole, Tensor) or not whole.is_floating_point() or whole.shape[:1] != (1,):
        came = f"{whole.dtype} of {tuple(whole.shape)}" if isinstance(whole, Tensor) else whole
        raise TypeError(f"normalize made {came} of one image: expected it in floating point")
    down, right = (torch.arange(size) >= size / 2 for size in whole.shape[-2:])
    quarter = (2 * down[:, None] + right).to(whole.device)
    combinations = torch.arange(_COMBINATIONS, device=whole.device)[:, None, None, None]
    gone = (combinations >> quarter & 1).bool()
    shown = torch.where(gone, whole.mean((-2, -1), keepdim=True), whole)
    with torch.no_grad(), evaluating(model):
        (found,) = (logits_of(model)(batch) for batch in batches(model, shown, _COMBINATIONS))
    for name, number in classes.items():
        if isinstance(number, bool) or number not in range(found.shape[1]):
            raise ValueError(
                f"class {name!r} is number {number!r}, expected 0 to {found.shape[1] - 1}: the "
                f"model gives {found.shape[1]} logits"
            )
    asked = found[:, list(classes.values())].double().cpu()
    if not asked.isfinite().all():
        raise ValueError(
            "the model's logits hold NaN or infinity: expected finite numbers, from images that "
            "are normalised as the model takes them"
        )
    return asked.numpy()


def _check_goal(goal: tuple[str, str] | None, names: Sequence[str], logits: np.ndarray) -> None:
    if goal is None:
        return
    name, way = goal if isinstance(goal, Sequence) and len(goal) == 2 else (None, None)
    if name not in names or way not in ("up", "down"):
        raise ValueError(
            f"goal came as {goal}, expected one of {', '.join(names)}, and 'up' or 'down'"
        )
    changes = logits[:, names.index(name)] - logits[0, names.index(name)]
    best = max(changes if way == "up" else -changes)
    if best < _LEAST:
        raise ValueError(
            f"no quarter taken away moves {name} {way} by {_LEAST:g} or more (at most "
            f"{best:.2f}): expected a goal that can be reached"
        )


def _ink_on(color: np.ndarray) -> str:
    """Black or white, by the contrast of WCAG 2: one of the two has at least 4.5 on any colour."""
    part = color / 255
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    return "#000" if linear @ [0.2126, 0.7152, 0.0722] > 0.179 else "#fff"


def _finding(names: Sequence[str], labels: Sequence[str], logits: np.ndarray) -> str:
    """Which quarter each class loses most from, and the largest rise."""
    changes = logits[[1, 2, 4, 8]] - logits[0]  # "quarters classes"
    worst, kept, told = changes.argmin(0), [], []
    for name, quarter, change in zip(names, worst, changes.min(0), strict=True):
        if change > -_SEEN:
            kept.append(name)
        else:
            falls = "" if told else "falls most "
            told.append(f"{name} {falls}without {labels[quarter]} (by {-change:.2f})")
    found = f"Logits when one quarter is taken away: {', '.join(told)}. " if told else ""
    found += f"No single quarter lowers {', '.join(kept)}. " if kept else ""
    quarter, risen = np.unravel_index(changes.argmax(), changes.shape)
    rise = changes[quarter, risen]
    if rise < _SEEN:
        return f"{found}No logit rises."
    return f"{found}The largest rise: {names[risen]} without {labels[quarter]} (by {rise:.2f})."
