"""Encoded images to pixels, all of one size."""

import io

import numpy as np
from jaxtyping import UInt8

from vitbook.extras import from_extra

with from_extra("data"):
    from PIL import Image, ImageOps

_FORMATS = ("JPEG", "PNG")  # Pillow knows sixty more, which no set of images needs
_FAULTS = (OSError, ValueError, SyntaxError, Image.DecompressionBombError)


class ImageError(ValueError):
    """Bytes that are no whole image."""


def open_image(encoded: bytes) -> Image.Image:
    """A JPEG or PNG, decoded; its mode and size are the file's own.

    Raises:
        ImageError: another format, or a file cut short.
    """
    try:
        image = Image.open(io.BytesIO(encoded), formats=_FORMATS)
        image.load()
    except Image.UnidentifiedImageError:
        start = encoded[:8].hex(" ")
        raise ImageError(
            f"{len(encoded)} bytes that begin with {start or 'nothing'} are no JPEG or PNG"
        ) from None
    except _FAULTS as error:
        raise ImageError(f"{len(encoded)} bytes do not decode ({error})") from error
    return image


def as_shown(image: Image.Image) -> Image.Image:
    """An image of anyone's as a viewer shows it, in RGB: turned as its EXIF says, 16 bits scaled
    to 8, and white behind what is transparent."""
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I"):  # of PNG: 16 bits in the lower half
        image = Image.fromarray((np.asarray(image) // 257).clip(0, 255).astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        behind = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(behind, image)
    return image.convert("RGB")


def square(image: Image.Image, size: int) -> Image.Image:
    """RGB of ``size`` x ``size`` pixels: the centre square of the short side, then bicubic with
    antialiasing. An image that is such a square already is returned with its own pixels."""
    if image.mode != "RGB":
        image = image.convert("RGB")
    if image.size == (size, size):
        return image
    width, height = image.size
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    image = image.crop((left, top, left + side, top + side))
    return image.resize((size, size), Image.Resampling.BICUBIC)


def pixels(image: Image.Image) -> UInt8[np.ndarray, "3 height width"]:
    return np.asarray(image).transpose(2, 0, 1)


def encode_png(image: UInt8[np.ndarray, "3 height width"] | Image.Image) -> bytes:
    """Without loss."""
    if isinstance(image, np.ndarray):
        image = Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0)))
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()
