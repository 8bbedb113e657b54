"""A Vision Transformer that learns in the reader's browser."""

from importlib.resources import files

import numpy as np

from vitbook.figures.parts.drawing import CIVIDIS
from vitbook.figures.parts.figure import Figure, in_line, piece_key
from vitbook.figures.parts.packing import squeeze

_WORKER = ("layout", "chance", "model", "trainer")  # what one imports before it
_LEVELS = 16  # of the digits' ink
# By their names in the library's catalogue; a rate is the largest of its cosine.
_SIZES = {
    "nano": dict(width=32, depth=2, heads=4, hidden=64, rate=2e-3, warmup=50),
    "micro": dict(width=64, depth=4, heads=4, hidden=128, rate=2e-3, warmup=100),
}
# A page fetches the one that it runs; plain is for browsers without SIMD.
_COMPILED = ("vit", "vit-plain", "resnet", "resnet-plain")
_STEPS = 2500  # of 32 images


def in_order(digits) -> tuple[np.ndarray, np.ndarray]:
    """Levels of ink "n pixels" and labels, by class; of a class each after the one most like it.

    Neighbours are alike so, which makes a page smaller; a model that learns sees them shuffled.
    """
    levels = np.rint(digits.images.flatten(1).numpy() * (_LEVELS / 255)).astype(int)
    labels, order = digits.labels.numpy(), []
    for label in range(len(digits.class_names)):
        left = list(np.flatnonzero(labels == label))
        order.append(left.pop(0))
        while left:
            away = np.abs(levels[left] - levels[order[-1]]).sum(1)
            order.append(left.pop(int(away.argmin())))
    return levels[order].astype(np.uint8), labels[order]


def learn(
    train,
    held_out,
    *,
    change: str | None = None,
    size: str = "nano",
    task: str | None = None,
    title: str = "A Vision Transformer learns while you watch",
    description: str = (
        "A fresh Vision Transformer, its forward and backward pass and its optimiser run in this "
        "page, on one core of your machine; nothing leaves it. Held-out digits are never trained "
        "on. The thin orange line is the loss, from its first value down to 0."
    ),
) -> Figure:
    """Train a small Vision Transformer on digits, in the page, and look into it on the way.

    Args:
        train: a data set of grey digits of 8 x 8 pixels and 17 levels, as
            ``datasets.load("digits", "train")``.
        held_out: what its accuracy is measured on.
        change: what differs in a second model that learns beside the first, such as "positions",
            and then the only one that is offered; by default the reader chooses.
        size: of the Vision Transformer at the start, "nano" or "micro".
    """
    room = files("vitbook.trainer")
    sources = [(room / f"{name}.js").read_text(encoding="utf-8") for name in _WORKER]
    worker = "".join(map(in_line, sources)).replace("export ", "")
    (ink, labels), (held, held_labels) = in_order(train), in_order(held_out)
    pieces = {
        # All first pixels, then all second ones.
        "digits": squeeze(ink.T.tobytes() + held.T.tobytes()),
        "worker": squeeze(worker.encode()),
    } | {kind: squeeze((room / f"{kind}.wasm").read_bytes()) for kind in _COMPILED}
    first = np.searchsorted(held_labels, range(len(train.class_names)))
    data = {
        "pieces": {name: piece_key(text) for name, text in pieces.items()},
        "counts": [np.bincount(each).tolist() for each in (labels, held_labels)],
        "examples": held[first].tolist(), "side": train.images.shape[-1], "levels": _LEVELS,
        "classes": list(train.class_names), "sizes": _SIZES, "size": size,
        "steps": _STEPS, "change": change, "ramp": CIVIDIS, "draws": task is None,
        "task": "Train it until it reads nine of ten digits that it has never seen. Then draw one "
                "for it." if task is None else task,
    }  # fmt: skip
    return Figure("learn", data, title, description, tuple(pieces.values()))
