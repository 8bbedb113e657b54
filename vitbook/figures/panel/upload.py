"""A photograph of the reader's own, as a model takes it."""

import io
import warnings
from collections.abc import Mapping

import numpy as np
from jaxtyping import UInt8

from vitbook.extras import from_extra

MOST_BYTES = 50_000_000
MOST_PIXELS = 64_000_000


def uploads(value) -> list[tuple[str, bytes]]:
    """Name and bytes of each file in the value of a FileUpload, of ipywidgets 8 or 7."""
    if isinstance(value, Mapping):  # 7, which Colab has
        return [(name, bytes(file["content"])) for name, file in value.items()]
    return [(file["name"], bytes(file["content"])) for file in value]


def read_upload(
    name: str, encoded: bytes, size: tuple[int, int], channels: int
) -> tuple[UInt8[np.ndarray, "channels height width"], str]:
    """A JPEG or PNG as a viewer shows it: its centre, scaled; and what was done, in words.

    Turned as its EXIF says, white behind what is transparent, of an animation the first image.

    Args:
        size: height and width that the model takes.
        channels: 3, or 1 for grey.

    Raises:
        ValueError: no whole JPEG or PNG, or one of more than 50 MB or 64 million pixels.
        MissingPackageError: Pillow is not installed.
    """
    with from_extra("data"):
        from PIL import Image, ImageOps

    from vitbook.datasets.images import as_shown, open_image

    if not encoded:
        raise ValueError(f"{name} is empty: choose a JPEG or PNG")
    if len(encoded) > MOST_BYTES:
        raise ValueError(
            f"{name} has {len(encoded) / 1e6:.0f} MB, expected at most {MOST_BYTES // 10**6}: "
            "make it smaller first"
        )
    _check_pixels(name, encoded)
    try:
        image = as_shown(open_image(encoded))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    across, down = image.size
    height, width = size
    fitted = ImageOps.fit(image, (width, height), Image.Resampling.BICUBIC)
    array = np.asarray(fitted.convert("L" if channels == 1 else "RGB"))
    said = f"{name}, {across}x{down} pixels: its centre, scaled to {width}x{height}."
    if (across, down) == (width, height):
        said = f"{name}, as it came."
    return np.atleast_3d(array).transpose(2, 0, 1).copy(), said


def _check_pixels(name: str, encoded: bytes) -> None:
    """Refuse what would take gigabytes, before it is decoded."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            across, down = Image.open(io.BytesIO(encoded), formats=("JPEG", "PNG")).size
        refused = across * down > MOST_PIXELS
    except Image.DecompressionBombError:
        refused = True
    except (OSError, ValueError, SyntaxError):
        return  # the reader says what is wrong with it
    if refused:
        raise ValueError(
            f"{name} has more than {MOST_PIXELS // 10**6} million pixels: make it smaller first"
        )
