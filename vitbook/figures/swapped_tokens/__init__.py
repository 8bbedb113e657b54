"""Tokens of one photograph that the reader puts into another, at a block, and the answer then."""

from collections.abc import Mapping, Sequence

import numpy as np

from vitbook.figures.parts.drawing import OKABE_ITO, as_array, as_images
from vitbook.figures.parts.figure import Figure, at_the_start
from vitbook.figures.parts.jpeg import jpeg

_PARTS = ("top left", "top right", "bottom left", "bottom right", "class token")
_SETS = 2 ** len(_PARTS)  # bit p of a number says that part p is the other's
_ABOVE, _BELOW = OKABE_ITO[0], OKABE_ITO[4]


def swapped_tokens(
    images: Mapping[tuple[str, str], object],
    logits: Mapping[tuple[str, str], object],
    class_names: Sequence[str],
    *,
    shown: Sequence[str],
    goal: tuple[tuple[str, str], int] | None = None,
    start: tuple[int, int] = (0, 1),
    task: str | None = None,
    title: str = "Swap some tokens of two photographs, and read the answer",
    description: str | None = None,
) -> Figure:
    """Two photographs whose tokens the reader swaps, by quarters and by block, and the logits.

    All answers come with the figure: those of every set of the four quarters and the class token,
    in front of every block and behind the last one.

    Args:
        images: names of the two photographs -> uint8 "2 c h w" with even sides. The model sees the
            first one; tokens of the second are put into it.
        logits: the same names -> "blocks + 1, 32, classes". Bit p of the second place says that
            part p is the second photograph's: the quarters row by row, then the class token.
        class_names: of all logits.
        shown: those that have a bar, at most eight.
        goal: a pair and a number of blocks. The task is reached where a single part, swapped behind
            so many blocks, gives the second photograph's answer.
        start: behind how many blocks tokens are swapped at first, and which set.
    """
    names = [str(name) for name in class_names]
    if lacking := [name for name in shown if name not in names]:
        raise ValueError(
            f"shown class {lacking[0]!r}: expected some of the classes, {', '.join(names)}"
        )
    kept = [names.index(name) for name in shown]
    pairs = []
    for pair, given in images.items():
        two, found = as_images(given), as_array(logits[pair]).astype(float)
        if len(two) != 2 or found.shape[1:] != (_SETS, len(names)):
            raise ValueError(
                f"{' and '.join(pair)}: {len(two)} images with logits of {found.shape}, expected 2 "
                f"and (blocks + 1, {_SETS}, {len(names)})"
            )
        bars = found[..., kept].round(2)
        pairs.append({
            "names": list(pair), "images": [jpeg(image) for image in two],
            "logits": bars.tolist(), "answers": found.argmax(-1).tolist(),
            "scale": [float(np.floor(min(bars.min(), 0))), float(np.ceil(max(bars.max(), 1)))],
        })  # fmt: skip
    block, swapped = start
    first = pairs[0]
    answer = names[first["answers"][block][swapped]]
    one, other = first["names"]
    told = f"swapped behind {block} of {len(first['logits']) - 1} blocks ({_listed(swapped)})"
    given = f"{one} with tokens of {other}, {told}" if swapped else f"{one}, and nothing swapped"
    finding = f"{given}. The answer is {answer}."
    data = {
        "pairs": pairs, "parts": list(_PARTS), "classes": names, "shown": list(shown),
        "size": list(as_array(next(iter(images.values()))).shape[-2:]), "colors": [_BELOW, _ABOVE],
        "goal": None if goal is None else [list(images).index(goal[0]), goal[1]],
        "start": {"pair": 0, "block": block, "swapped": swapped}, "task": task or "",
    }  # fmt: skip
    return Figure("swapped_tokens", data, title, description or at_the_start(finding))


def _listed(swapped: int) -> str:
    return ", ".join(part for p, part in enumerate(_PARTS) if swapped >> p & 1)
