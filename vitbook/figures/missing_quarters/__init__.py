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
) -> Figure:
    """An image whose quarters the reader takes away, and the logits of a few classes without them.

    A quarter that is gone has the image's mean colour, as for
    ``quarter_drops`` of ``vitbook.studies.interventions``. All 16 answers are computed here.

    Args:
        model: gives logits, "batch classes"; left as it came.
        image: uint8 "3 height width" with even sides: four photographs, row by row.
        classes: name -> number of a logit, at most eight, in the order of the bars.
        normalize: makes of uint8 images what the model takes.
        labels: of the four quarters, row by row; by default where they lie.
        goal: a name among ``classes`` and "up" or "down". The task is reached while the logit
            stands higher, or lower, by at least 1 than with all four there.
    """
    image = as_array(image)
    labels = [str(label) for label in (_PLACES if labels is None else labels)]
    names = [str(name) for name in classes]
    logits = _logits(model, image, classes, normalize).round(3)
    low, high = np.floor(min(logits.min(), 0)), np.ceil(max(logits.max(), 0))
    mean = image.mean((1, 2))
    data = {
        "image": jpeg(image), "size": list(image.shape[1:]), "labels": labels, "classes": names,
        "logits": logits.tolist(), "scale": [float(low), float(max(high, low + 1))],
        "mean": np.rint(mean).astype(int).tolist(), "ink": _ink_on(mean), "goal": goal,
        "least": _LEAST, "colors": [_BELOW, _ABOVE], "removed": 0, "task": task or "",
    }  # fmt: skip
    finding = _finding(names, labels, logits)
    return Figure("missing_quarters", data, title, description or finding)


def _logits(
    model: nn.Module, image: np.ndarray, classes: Mapping[str, int], normalize: Callable
) -> np.ndarray:
    """Of the asked classes, without each combination of quarters: "16 classes", in float64."""
    whole = normalize(torch.from_numpy(image.copy())[None])
    down, right = (torch.arange(size) >= size / 2 for size in whole.shape[-2:])
    quarter = (2 * down[:, None] + right).to(whole.device)
    combinations = torch.arange(_COMBINATIONS, device=whole.device)[:, None, None, None]
    gone = (combinations >> quarter & 1).bool()
    shown = torch.where(gone, whole.mean((-2, -1), keepdim=True), whole)
    with torch.no_grad(), evaluating(model):
        (found,) = (logits_of(model)(batch) for batch in batches(model, shown, _COMBINATIONS))
    return found[:, list(classes.values())].double().cpu().numpy()


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
