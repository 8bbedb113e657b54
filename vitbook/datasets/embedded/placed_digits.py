"""Digits on a canvas of 12 x 12 pixels that stay or move, in order or torn apart."""

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange

from vitbook.datasets.dataset import Dataset
from vitbook.datasets.embedded.digits import load_digits

CANVAS, DIGIT, PATCH = 12, 8, 2  # pixels a side
SEEDS = {"train": 0, "test": 1}
ORDER_SEED = 9
# name -> whether digits move, and pixels a side of the pieces that are put in another order
PLACED_DIGITS = {
    "centred_digits": (False, 0),
    "centred_digits_shuffled": (False, PATCH),
    "moved_digits": (True, 0),
    "moved_digits_shuffled": (True, PATCH),
    "moved_digits_scattered": (True, 1),
}


def load_placed_digits(name: str, split: str) -> Dataset:
    """Each digit of :func:`load_digits` once, on a canvas of 12 x 12 pixels.

    A control for what a model gains when neighbours belong together and when the same thing turns
    up at many places. "centred" digits lie in the middle, "moved" ones at one of 25 places, drawn
    for each once. "shuffled" puts the 36 patches of 2 x 2 pixels of every image, in both splits,
    in one and the same order; "scattered" does so with the 144 pixels. Both only rename the places:
    what compares images pixel by pixel, as nearest neighbours do, answers as before.

    Chance is the stream of PCG64, which is the same on every machine.

    Args:
        name: of :data:`PLACED_DIGITS`.
        split: "train" or "test".
    """
    moves, piece = PLACED_DIGITS[name]
    digits = load_digits(split)
    free = CANVAS - DIGIT
    rule = f"{digits.provenance['rule']}; on {CANVAS}x{CANVAS} px, "
    if moves:
        draws = np.random.PCG64(SEEDS[split]).random_raw(2 * len(digits)) >> 11
        places = (draws % (free + 1)).astype(int).reshape(-1, 2).tolist()
        rule += f"at one of {(free + 1) ** 2} places, PCG64({SEEDS[split]})"
    else:
        places = [(free // 2, free // 2)] * len(digits)
        rule += "in the middle"
    images = torch.stack(
        [
            F.pad(image, (left, free - left, top, free - top))
            for image, (top, left) in zip(digits.images, places, strict=True)
        ]
    )
    if piece:
        side = CANVAS // piece
        order = torch.from_numpy(np.random.PCG64(ORDER_SEED).random_raw(side**2).argsort())
        pieces = rearrange(images, "n 1 (r p) (c q) -> n (r c) p q", p=piece, q=piece)
        images = rearrange(pieces[:, order], "n (r c) p q -> n 1 (r p) (c q)", r=side)
        rule += f"; pieces of {piece}x{piece} px in one other order, PCG64({ORDER_SEED})"
    return Dataset(
        images=images.contiguous(),
        labels=digits.labels,
        class_names=digits.class_names,
        provenance=digits.provenance | {"name": name, "rule": rule},
    )
