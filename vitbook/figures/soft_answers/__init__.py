"""What teachers answer of a few images: the share of each class, at any temperature."""

from collections.abc import Mapping, Sequence
from math import floor

import numpy as np

from vitbook.figures.parts.drawing import Number, as_array, as_images, image_png
from vitbook.figures.parts.figure import Figure, at_the_start

# The slider's places, from 0.25 to 100 in round steps that are about as far apart by their ratio.
_STEPS = (1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9)
TEMPERATURES = (
    *(round(0.1 * step, 2) for step in _STEPS if step >= 2.5),
    *(float(step) for step in _STEPS), *(round(10.0 * step, 2) for step in _STEPS), 100.0,
)  # fmt: skip
_IMAGES, _CLASSES, _TEACHERS = 16, 20, 5  # at most
_DIGITS = 4  # of a logit, after its point


def soft_answers(
    images,
    logits: Mapping,
    labels,
    *,
    class_names: Sequence[str] | None = None,
    goal: Number | None = None,
    task: str | None = None,
    title: str = "A high temperature makes all classes alike",
    description: str | None = None,
) -> Figure:
    """The shares ``softmax(logits / temperature)`` that teachers give the classes of an image.

    The reader chooses an image, a teacher, and a temperature from 0.25 to 100. The page tells the
    two largest shares and the perplexity of the answer: the exponential of its entropy, which is 1
    for a sure answer and the number of classes for an even one. After Hinton et al. 2015, eq. 1.

    Args:
        images: uint8 "n c h w", at most 16; the first one is shown at the start.
        logits: name of a teacher -> "n classes"; at most five teachers of the same classes. They
            travel with four decimals. The first teacher is shown at the start; the shares of the
            last one, such as one with fresh weights, are marks over the bars.
        labels: ints "n".
        class_names: one name for each class, at most 20; by default their numbers.
        goal: the task is reached where the first teacher's second class has at least this share.
    """
    images = as_images(images)
    answers = {str(name): np.round(as_array(given).astype(float), _DIGITS)
               for name, given in logits.items()}  # fmt: skip
    classes = len(next(iter(answers.values()))[0])
    if len(images) > _IMAGES or classes > _CLASSES or len(answers) > _TEACHERS:
        raise ValueError(
            f"{len(images)} images of {classes} classes and {len(answers)} teachers came, expected "
            f"up to {_IMAGES}, {_CLASSES} and {_TEACHERS}, for which a page has room"
        )
    names = [str(name) for name in (range(classes) if class_names is None else class_names)]
    teachers = list(answers)
    asked = "" if goal is None else (
        f"Find an image and a temperature at which {teachers[0]} gives its second class at least "
        f"{100 * goal:g} %."
    )  # fmt: skip
    data = {
        "images": [image_png(image) for image in images],
        "height": images.shape[2], "width": images.shape[3],
        "labels": as_array(labels).tolist(), "classes": names, "teachers": teachers,
        "logits": [each.tolist() for each in answers.values()],
        "reference": len(teachers) - 1 if len(teachers) > 1 else None,
        "temperatures": TEMPERATURES, "goal": goal,
        "spread": f"classes of {classes}: the perplexity",
        "start": {"image": 0, "teacher": 0, "temperature": 1.0},
        "task": asked if task is None else task,
    }  # fmt: skip
    first = shares(answers[teachers[0]][0], 1)
    finding = _finding(data, first)
    return Figure("soft_answers", data, title, description or at_the_start(finding))


def shares(logits: np.ndarray, temperature: Number) -> np.ndarray:
    """Logits "... classes" to shares with sum 1."""
    powers = np.exp((logits - logits.max(-1, keepdims=True)) / temperature)
    return powers / powers.sum(-1, keepdims=True)


def perplexity(given: np.ndarray) -> float:
    """How many classes an even answer of the same entropy has."""
    held = given[given > 0]
    return float(np.exp(-(held * np.log(held)).sum()))


def percent(share: Number) -> str:
    """As the page tells it: ``34.2 %``, or ``< 0.1 %``."""
    tenths = floor(1000 * share + 0.5)
    return f"{tenths / 10:.1f} %" if tenths else "< 0.1 %"


def _finding(data: dict, given: np.ndarray) -> str:
    best, second = np.argsort(-given, kind="stable")[:2]
    classes, teachers, beside = data["classes"], data["teachers"], data["reference"]
    marks = (
        f"A thin mark is the share that {teachers[beside]} gives it at the same temperature. "
        if beside
        else ""
    )
    return (
        f"At temperature {data['start']['temperature']:g} {teachers[0]} says that the first image, "
        f"whose label is {classes[data['labels'][0]]}, is {classes[best]} with "
        f"{percent(given[best])}, and {classes[second]} with {percent(given[second])}: as if it "
        f"were undecided among {perplexity(given):.2f} of {len(classes)} classes.\nA bar is the "
        f"share of a class. {marks}Bars that stay apart at temperature 100 would refute the title."
    )
