"""Photographs as small data addresses."""

import io
from base64 import b64encode

import numpy as np

from vitbook.extras import from_extra


def jpeg(image: np.ndarray, side: int | None = None, quality: int = 82) -> str:
    """One uint8 image "c h w" as a data address, at most ``side`` pixels a side if given.

    Raises:
        MissingPackageError: Pillow is not installed.
    """
    with from_extra("data"):
        from PIL import Image

    shown = Image.fromarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0))
    if side is not None:
        shown.thumbnail((side, side))
    file = io.BytesIO()
    shown.save(file, "JPEG", quality=quality, optimize=True)
    return "data:image/jpeg;base64," + b64encode(file.getvalue()).decode()
