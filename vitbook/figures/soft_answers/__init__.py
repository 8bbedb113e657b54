"""What teachers answer of a few images: the share of each class, at any temperature."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from math import floor, isfinite

import numpy as np

from vitbook.errors import UnknownNameError
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
    temperature: Number = 1.0,
    reference: str | None = None,
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
            travel with four decimals. The first teacher is shown at the start.
        labels: ints "n".
        class_names: one name for each class, at most 20; by default their numbers.
        temperature: at the start.
        reference: teacher whose shares are marks over the bars, at the same temperature, such as
            one with fresh weights; by default the last one.
        goal: the task is reached where the first teacher's second class has at least this share.
        task: a sentence above the figure; by default one that asks for the goal, if there is one.
        description: the caption; by default the finding at the start, and how to read it.

    Raises:
        TypeError: labels or logits that are no numbers.
        ValueError: images that are not uint8, none or too many of them; labels, logits, or names of
            classes that do not fit together; two teachers of one name; logits that are not finite;
            a temperature outside 0.25 to 100; a goal that the first teacher never reaches, or has
            reached at the start.
        UnknownNameError: a reference that is no teacher.
    """
    images = as_images(images)
    if len(images) > _IMAGES:
        raise ValueError(f"{len(images)} images came, expected at most {_IMAGES}: choose a few")
    if not logits:
        raise ValueError("no logits came, expected those of at least one teacher: name -> logits")
    if len(logits) > _TEACHERS:
        raise ValueError(f"{len(logits)} teachers came, expected at most {_TEACHERS}: choose a few")
    answers = {str(name): _rounded(given, name, len(images)) for name, given in logits.items()}
    if len(answers) < len(logits):
        raise ValueError(f"teachers came as {[*logits]}, expected names that differ as text")
    classes = _same_classes(answers)
    labels = _labels(labels, len(images), classes)
    names = [str(name) for name in (range(classes) if class_names is None else class_names)]
    if len(names) != classes:
        raise ValueError(f"{len(names)} class names came, expected {classes}: one for each logit")
    teachers = list(answers)
    reference = teachers[-1] if reference is None else reference
    if reference not in teachers:
        raise UnknownNameError("reference", reference, teachers)
    beside = teachers.index(reference) if len(teachers) > 1 else None
    temperatures = _with(temperature)
    start = float(temperature)
    if goal is not None:
        _check_goal(goal, answers[teachers[0]], temperatures, start)
    asked = "" if goal is None else (
        f"Find an image and a temperature at which {teachers[0]} gives its second class at least "
        f"{100 * goal:g} %."
    )  # fmt: skip
    data = {
        "images": [image_png(image) for image in images],
        "height": images.shape[2], "width": images.shape[3],
        "labels": labels, "classes": names, "teachers": teachers,
        "logits": [each.tolist() for each in answers.values()],
        "reference": beside,
        "temperatures": temperatures, "goal": goal,
        "spread": f"classes of {classes}: the perplexity",
        "start": {"image": 0, "teacher": 0, "temperature": start},
        "task": asked if task is None else task,
    }  # fmt: skip
    first = shares(answers[teachers[0]][0], start)
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


def spread(given: np.ndarray) -> str:
    """The perplexity as the page tells it."""
    return f"{perplexity(given):.2f}"


def _rounded(given, name: object, count: int) -> np.ndarray:
    """Logits of one teacher as the page gets them."""
    found = as_array(given)
    if found.dtype.kind not in "fiu":
        raise TypeError(f"logits of {name!r} came as {found.dtype}, expected numbers")
    if found.ndim != 2 or len(found) != count:
        raise ValueError(
            f"logits of {name!r} came with shape {found.shape}, expected ({count}, classes): a row "
            "for each image"
        )
    if not 2 <= found.shape[1] <= _CLASSES:
        raise ValueError(
            f"logits of {name!r} came for {found.shape[1]} classes, expected 2 to {_CLASSES}, for "
            "which a drawing has room"
        )
    with np.errstate(over="ignore"):
        rounded = np.round(found.astype(float), _DIGITS)
    if not np.isfinite(rounded).all():  # rounding overflows beyond 1e304
        raise ValueError(
            f"logits of {name!r} hold NaN or infinity, expected numbers up to 1e304: look for what "
            "the teacher was fed"
        )
    return rounded


def _same_classes(answers: Mapping[str, np.ndarray]) -> int:
    (first, given), *others = answers.items()
    for name, other in others:
        if other.shape[1] != given.shape[1]:
            raise ValueError(
                f"logits of {name!r} came for {other.shape[1]} classes and those of {first!r} for "
                f"{given.shape[1]}, expected teachers of the same classes"
            )
    return given.shape[1]


def _labels(labels, count: int, classes: int) -> list[int]:
    found = as_array(labels)
    if found.shape != (count,):
        raise ValueError(
            f"labels came with shape {found.shape} for {count} images, expected ({count},): one "
            "for each"
        )
    if found.dtype.kind not in "iu":
        raise TypeError(f"labels came as {found.dtype}, expected whole numbers of classes")
    if found.min() < 0 or found.max() >= classes:
        raise ValueError(
            f"labels came from {found.min()} to {found.max()}, expected 0 to {classes - 1}, the "
            "classes of the logits"
        )
    return found.tolist()


def _with(temperature: Number) -> list[float]:
    """The slider's places, the one at the start among them."""
    low, high = TEMPERATURES[0], TEMPERATURES[-1]
    if isinstance(temperature, bool) or not low <= temperature <= high:
        raise ValueError(
            f"temperature {temperature!r} at the start, expected a number from {low:g} to {high:g}"
        )
    places = list(TEMPERATURES)
    if temperature not in places:
        places.insert(bisect_left(places, temperature), float(temperature))
    return places


def _check_goal(goal: Number, logits: np.ndarray, temperatures: list[float], start: float) -> None:
    """The task can be reached, and is not reached before it begins."""
    if isinstance(goal, bool) or not (isfinite(goal) and goal > 0):
        raise ValueError(f"goal {goal!r} came, expected a share above 0, such as 0.2")
    seconds = [np.sort(shares(logits, each), -1)[:, -2] for each in temperatures]
    if (most := float(np.max(seconds))) < goal:
        raise ValueError(
            f"goal {goal!r} is never reached: the second class of the first teacher has at most "
            f"{floor(1000 * most) / 1000:g}: expected no more than that"
        )
    if seconds[temperatures.index(start)][0] >= goal:
        raise ValueError(
            f"goal {goal!r} is reached before the task begins: expected a larger one, or another "
            "image first"
        )


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
        f"were undecided among {spread(given)} of {len(classes)} classes.\nA bar is the share of a "
        f"class. {marks}Bars that stay apart at temperature 100 would refute the title."
    )
