"""Which pixels of some photographs show the object: masks that were made for this book.

An outline was drawn by hand, as polygons or ellipses; GrabCut (Rother et al. 2004), which goes by
colour, found the edge near it.
"""

import json
import zlib
from base64 import b64decode
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, UInt8
from torch import Tensor

from vitbook import datasets

# Squares of a photograph's thumbnail, a side, and how far one of them may lie off, of 255: another
# copy of the photographs was compressed or cut again.
_SQUARES, _FAR = 4, 6


def thumbnail(
    images: UInt8[Tensor, "n channels height width"],
) -> Float[Tensor, "n numbers"]:
    """The mean colours of 4 x 4 squares, by which a photograph is found again."""
    return F.adaptive_avg_pool2d(images.float(), _SQUARES).flatten(1)


def _drawn(name: str) -> tuple[list[dict], Bool[Tensor, "n side side"]]:
    kept = json.loads((Path(__file__).parent / "masks.json").read_text("utf-8"))[name]
    side, lines = kept["side"], kept["masks"]
    bits = [np.unpackbits(np.frombuffer(zlib.decompress(b64decode(line["mask"])), np.uint8))
            for line in lines]  # fmt: skip
    return lines, torch.from_numpy(np.stack(bits)).bool().view(len(lines), side, side)


def photo_masks() -> dict[str, Bool[Tensor, "224 224"]]:
    """Of six of the nine photographs of ``datasets.load("photos", "all")``, name -> object."""
    lines, masks = _drawn("photos")
    return {line["photograph"]: mask for line, mask in zip(lines, masks, strict=True)}


def masked_photos() -> tuple[UInt8[Tensor, "n 3 224 224"], Bool[Tensor, "n 224 224"]]:
    """The six photographs of :func:`photo_masks`, beside their masks, in its order."""
    photos, masks = datasets.load("photos", "all"), photo_masks()
    which = [photos.class_names.index(name) for name in masks]
    return photos.images[which], torch.stack(list(masks.values()))


def flower_masks() -> tuple[UInt8[Tensor, "n 3 160 160"], Bool[Tensor, "n 160 160"]]:
    """Held-out photographs of TF-Flowers and which of their pixels show flower heads.

    Of the first 48, those whose heads an eye tells from the rest and that neither fill the
    photograph nor are smaller than a patch.

    Raises:
        ValueError: a photograph is not among the held-out ones of this copy.
        As :func:`vitbook.datasets.load`.
    """
    held_out = datasets.load("tf_flowers", "test", image_size=160).images
    lines, masks = _drawn("tf_flowers")
    wanted = torch.tensor([line["thumbnail"] for line in lines]).float()
    far = (thumbnail(held_out)[None] - wanted[:, None]).abs().amax(2)
    nearest, which = far.min(1)
    if nearest.max() > _FAR:
        number = lines[int(nearest.argmax())]["photograph"]
        raise ValueError(
            f"the photograph for which mask {number} was drawn is not among the {len(held_out)} "
            "held-out ones: expected TF-Flowers whole, every fifth photograph of a class held out"
        )
    return held_out[which], masks
