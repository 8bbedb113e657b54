"""The labels of some tokens while a network learns: points that part, or fall into one."""

from collections.abc import Mapping, Sequence

import numpy as np

from vitbook.figures.parts.drawing import OKABE_ITO, Number, as_array, base64
from vitbook.figures.parts.figure import Figure, at_the_start

ONE_POINT = 0.05  # of the spread: what the task asks for
_MOST = 200_000  # numbers in a page


def label_cloud(
    labels: Mapping,
    losses: Mapping[str, Sequence[Number]],
    steps: Sequence[int],
    groups: Sequence[int],
    *,
    group: str = "place",
    task: str | None = None,
    title: str = "Labels of tokens while a network learns",
    description: str | None = None,
) -> Figure:
    """Labels as points of a plane, which the reader follows through a training.

    All trainings begin with the same labels. The plane is that of the two principal components of
    all labels, all steps and all trainings; the circle is as far as a label of length 1 can reach.
    The page counts the spread from all numbers of the labels, see :func:`cloud_spread`. The task is
    reached where the first training's spread is below 0.05.

    Args:
        labels: name of a training -> int8 "steps tokens dimensions": labels of length 1, times 127.
        losses: name of a training -> its loss at each step.
        steps: in order; the first is shown at the start.
        groups: of each token a number from 0: which place it stands at. At most eight.
        group: what such a number tells apart.

    Raises:
        ValueError: no training, labels of other steps or tokens than expected or of one number, a
            group of one token or out of range, a loss that is no number, or more than a page holds.
    """
    names = list(labels)
    if not names:
        raise ValueError("labels of no training: expected one at least")
    levels = np.stack([_levels(name, labels[name], len(steps), len(groups)) for name in names])
    groups = as_array(groups).astype(int)
    if outside := [each for each in groups.tolist() if not 0 <= each < len(OKABE_ITO)]:
        raise ValueError(f"group {outside[0]}: expected numbers from 0 to {len(OKABE_ITO) - 1}")
    counts = np.bincount(groups)
    if not len(counts) or counts.min() < 2:
        raise ValueError(
            f"groups of {counts.tolist()} tokens: expected up to {len(OKABE_ITO)} groups, numbered "
            "from 0, of two tokens or more, whose spread is told"
        )
    if list(losses) != names or any(len(each) != len(steps) for each in losses.values()):
        raise ValueError(f"losses of {list(losses)}: expected one at each of {len(steps)} steps "
                         f"for each of {names}")  # fmt: skip
    if not all(np.isfinite(as_array(each)).all() for each in losses.values()):
        raise ValueError("losses hold NaN, or infinity: expected a number at each step")
    if levels.size > _MOST:
        raise ValueError(f"{levels.size:,} numbers: a page holds {_MOST:,}; pass fewer tokens")
    center, plane = _plane(levels)
    data = {
        "names": names, "steps": [int(step) for step in steps], "group": group,
        "labels": [base64(each) for each in levels], "groups": groups.tolist(),
        "losses": [[round(float(each), 3) for each in losses[name]] for name in names],
        "dimensions": levels.shape[-1], "center": center, "plane": plane,
        "colors": OKABE_ITO[: len(counts)], "one": ONE_POINT,
        "start": {"way": 0, "step": int(steps[0])},
        "task": task if task is not None else (
            f"Move the steps until all labels are one point: a spread below {ONE_POINT:g}. Who "
            "keeps them apart at the same step?"
        ),
    }  # fmt: skip
    first = cloud_spread(levels[0, 0], groups)
    finding = (
        f"{names[0]}, step {steps[0]}: the labels' spread is {first:.2f}, the loss "
        f"{data['losses'][0][0]:.2f}.\nA point is the label of one token, a colour one {group}; "
        f"the grey points are the labels of step {steps[0]}. The spread is that of the labels at "
        f"one {group}, mean of them: 0 if each {group} has one label for all images."
    )
    return Figure("label_cloud", data, title, description or at_the_start(finding))


def cloud_spread(labels: np.ndarray, groups: np.ndarray) -> float:
    """One less the squared length of the mean label, in each group; the mean of the groups.

    Args:
        labels: "tokens dimensions", brought to length 1 here.
    """
    unit = labels.astype(float)
    unit /= np.maximum(np.linalg.norm(unit, axis=-1, keepdims=True), 1e-12)
    means = [unit[groups == each].mean(0) for each in range(groups.max() + 1)]
    return float(np.mean([1 - (mean**2).sum() for mean in means]))


def _levels(name: str, given, steps: int, tokens: int) -> np.ndarray:
    levels = as_array(given)
    fits = levels.ndim == 3 and levels.shape[:2] == (steps, tokens) and levels.shape[2] > 1
    if levels.dtype != np.int8 or not fits:
        raise ValueError(
            f"labels of {name!r} came as {levels.dtype} of shape {levels.shape}, expected int8 "
            f"({steps}, {tokens}, dimensions) of two dimensions or more"
        )
    return levels


def _plane(levels: np.ndarray) -> tuple[list[float], list[list[float]]]:
    """The mean of all labels, and two directions along which they differ most."""
    flat = levels.reshape(-1, levels.shape[-1]) / 127
    center = flat.mean(0)
    _, directions = np.linalg.eigh(np.cov((flat - center).T))
    plane = directions[:, ::-1][:, :2].T
    plane = plane * np.sign(plane.sum(1, keepdims=True) + 1e-9)  # either end may come first
    return np.round(center, 5).tolist(), np.round(plane, 5).tolist()
