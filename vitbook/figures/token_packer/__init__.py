"""A photograph whose frame the reader drags, and the sequences in which it lies with others."""

from collections.abc import Sequence

import numpy as np

from vitbook.errors import is_whole_number
from vitbook.figures.parts.drawing import Number, as_images
from vitbook.figures.parts.figure import Figure, at_the_start
from vitbook.figures.parts.jpeg import jpeg

_YOURS, _OTHERS = "#E69F00", "#56B4E9"
_LONG = 2  # times the longest photograph's tokens: a sequence into which several are packed
_SHOWN = 400  # px of the photograph's longer side, as the page carries it

Place = tuple[int, int]


def macs(tokens: int, patch: int, width: int, depth: int, mlp_width: int) -> int:
    """Multiply-adds of a ViT on so many patches of a colour image; its class token included."""
    every = tokens + 1
    of_token = depth * (4 * width**2 + 2 * width * mlp_width)
    return tokens * 3 * patch**2 * width + every * of_token + 2 * depth * every**2 * width


def packed(lengths: Sequence[int], most: int) -> list[list[int]]:
    """First fit: each image into the first sequence that has room for it."""
    sequences: list[list[int]] = []
    for image, length in enumerate(lengths):
        room = (s for s in sequences if sum(lengths[i] for i in s) + length <= most)
        found = next(room, None)
        if found is None:
            sequences.append(found := [])
        found.append(image)
    return sequences


def token_packer(
    image,
    sizes: Sequence[Place],
    *,
    size: Place,
    side: int = 768,
    patches: Sequence[int] = (16, 32),
    body: tuple[int, int, int] = (384, 12, 1536),
    goal: Number | None = None,
    task: str | None = None,
    title: str = "Padded, each photograph takes a sequence; packed, several may share one",
    description: str | None = None,
) -> Figure:
    """A frame to drag, its patches, what they cost, and the sequences that hold it with others.

    Padded, each photograph lies alone in a sequence as long as the longest photograph's. Packed,
    sequences are twice as long, and each photograph goes into the first one that has room for it
    (Dehghani et al. 2023, section 2.2).

    Args:
        image: uint8 "channels height width", the reader's photograph; it is cut to the frame.
        sizes: (height, width) in pixels of the other photographs, in the order of their packing.
        size: likewise of the reader's at the start.
        side: pixels of the largest square.
        patches: pixels of a patch's side, the first one at the start.
        body: width, depth and hidden width of the MLPs of the ViT whose multiply-adds are told.
        goal: percent of empty tokens at most, for which the task is reached; None for no task.

    Raises:
        ValueError: a size that is larger than the largest square or smaller than a patch, a patch
            that does not divide the square, or a frame that the largest patch does not divide.
    """
    (image,) = as_images(np.asarray(image)[None])
    patches, step = list(patches), max(patches, default=0)
    if not patches or not all(is_whole_number(p) and p > 0 and side % p == 0 for p in patches):
        raise ValueError(f"patches {patches}: expected some that divide {side} pixels")
    for height, width in (*sizes, size):
        if not (step <= height <= side and step <= width <= side):
            raise ValueError(
                f"a photograph of {height}x{width} pixels: expected {step} to {side} a side"
            )
    if any(length % step for length in size) or any(step % patch for patch in patches):
        raise ValueError(
            f"a frame of {size[0]}x{size[1]} pixels: expected multiples of {step}, the largest "
            "patch, which all others divide"
        )
    patch = patches[0]
    lengths = [(h // patch) * (w // patch) for h, w in (size, *sizes)]
    longest, many = max(lengths), len(lengths)
    most = _LONG * longest
    used = packed(lengths, most)
    finding = (
        f"This photograph has {size[0] // patch} × {size[1] // patch} = {lengths[0]:,} tokens. "
        f"Padded to the longest, {many} photographs take {many} sequences of {longest:,} tokens "
        f"and {_empty(lengths, many * longest)} are empty. Packed, they take {len(used)} of "
        f"{most:,}, and {_empty(lengths, len(used) * most)} are empty."
    )
    data = {
        "image": jpeg(image, side=_SHOWN), "sizes": [list(map(int, each)) for each in sizes],
        "size": list(map(int, size)), "side": int(side), "patches": patches, "body": list(body),
        "colors": [_YOURS, _OTHERS], "long": _LONG, "goal": goal, "task": task or "",
    }  # fmt: skip
    description = description or (
        f"{at_the_start(finding)}\nEach line is a sequence; orange is the "
        "photograph with the frame, blue are others, grey is empty. Multiply-adds: of a ViT "
        f"{body[0]} wide and {body[1]} blocks deep, with this photograph alone."
    )
    return Figure("token_packer", data, title, description)


def _empty(lengths: Sequence[int], taken: int) -> str:
    return f"{100 * (1 - sum(lengths) / taken):.0f} %"
