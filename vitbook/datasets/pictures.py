"""Encoded pictures to pixels, all of one size."""

import io

import numpy as np
from jaxtyping import UInt8

from vitbook.extras import from_extra

with from_extra("data"):
    from PIL import Image, ImageOps

_FORMATS = ("JPEG", "PNG")  # Pillow knows sixty more, which no set of pictures needs
_FAULTS = (OSError, ValueError, SyntaxError, Image.DecompressionBombError)


class PictureError(ValueError):
    """Bytes that are no whole picture."""


def open_picture(encoded: bytes) -> Image.Image:
    """A JPEG or PNG, decoded; its mode and size are the file's own.

    Raises:
        PictureError: another format, or a file cut short.
    """
    try:
        picture = Image.open(io.BytesIO(encoded), formats=_FORMATS)
        picture.load()
    except Image.UnidentifiedImageError:
        start = encoded[:8].hex(" ")
        raise PictureError(
            f"{len(encoded)} bytes that begin with {start or 'nothing'} are no JPEG or PNG"
        ) from None
    except _FAULTS as error:
        raise PictureError(f"{len(encoded)} bytes do not decode ({error})") from error
    return picture


def as_shown(picture: Image.Image) -> Image.Image:
    """A picture of anyone's as a viewer shows it, in RGB: turned as its EXIF says, 16 bits scaled
    to 8, and white behind what is transparent."""
    picture = ImageOps.exif_transpose(picture)
    if picture.mode.startswith("I"):  # of PNG: 16 bits in the lower half
        picture = Image.fromarray((np.asarray(picture) // 257).clip(0, 255).astype(np.uint8))
    if picture.has_transparency_data:
        picture = picture.convert("RGBA")
        behind = Image.new("RGBA", picture.size, "white")
        picture = Image.alpha_composite(behind, picture)
    return picture.convert("RGB")


def square(picture: Image.Image, size: int) -> Image.Image:
    """RGB of ``size`` x ``size`` pixels: the centre square of the short side, then bicubic with
    antialiasing. A picture that is such a square already is returned with its own pixels."""
    if picture.mode != "RGB":
        picture = picture.convert("RGB")
    if picture.size == (size, size):
        return picture
    width, height = picture.size
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    picture = picture.crop((left, top, left + side, top + side))
    return picture.resize((size, size), Image.Resampling.BICUBIC)


def pixels(picture: Image.Image) -> UInt8[np.ndarray, "3 height width"]:
    return np.asarray(picture).transpose(2, 0, 1)


def encode_png(image: UInt8[np.ndarray, "3 height width"] | Image.Image) -> bytes:
    """Without loss."""
    if isinstance(image, np.ndarray):
        image = Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0)))
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()
