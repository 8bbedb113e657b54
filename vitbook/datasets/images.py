"""Encoded images to pixels, all of one size."""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from jaxtyping import UInt8

from vitbook.extras import from_extra

with from_extra("data"):
    from PIL import Image, ImageOps

STORED = ("JPEG", "PNG")  # Pillow knows sixty more, which no stored set of images needs
ANYONES = (*STORED, "BMP", "TIFF", "WEBP")  # what is found in a folder of one's own


class ImageError(ValueError):
    """Bytes that are no whole image, or pixels that are none to be shown."""


def open_image(encoded: bytes, formats: tuple[str, ...] = STORED) -> Image.Image:
    """An image of one of the formats, decoded; its mode and size are the file's own.

    Raises:
        ImageError: another format, or a file cut short.
    """
    try:
        with _silence():
            image = Image.open(io.BytesIO(encoded), formats=formats)
            image.load()
    except Image.UnidentifiedImageError:
        start = encoded[:8].hex(" ")
        expected = f"{', '.join(formats[:-1])} or {formats[-1]}"
        raise ImageError(
            f"{len(encoded)} bytes that begin with {start or 'nothing'} are no {expected}"
        ) from None
    except MemoryError:
        raise
    except Exception as error:  # a damaged image fails in any way at all
        raise ImageError(f"{len(encoded)} bytes do not decode ({error})") from error
    if image.format == "PNG" and "transparency" in image.info:
        image.info["transparency"] = _as_decoded(image, bits=encoded[24])
    return image


def _as_decoded(image: Image.Image, bits: int) -> object:
    """A PNG's transparent colour in the 8 bits to which Pillow brings its pixels, and not it."""
    color = image.info["transparency"]
    if image.mode == "L" and isinstance(color, int):  # of 1, 2, 4 or 8 bits
        return (color & (2**bits - 1)) * (255 // (2**bits - 1))
    if image.mode == "RGB" and bits == 16:
        return tuple(each >> 8 for each in color)
    return color


def as_shown(image: Image.Image) -> Image.Image:
    """An image of anyone's as a viewer shows it, in RGB: turned as its EXIF says, 16 bits scaled
    to 8, and white behind what is transparent. A broken EXIF turns nothing.

    Raises:
        ImageError: pixels of more than 16 bits, of which none can be told to be white.
    """
    image = _upright(image)
    if image.mode.startswith(("I", "F")):
        image = _in_8_bits(image)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        behind = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(behind, image)
    return image.convert("RGB")


def _upright(image: Image.Image) -> Image.Image:
    try:
        with _silence():
            return ImageOps.exif_transpose(image)
    except MemoryError:
        raise
    except Exception:  # a damaged block fails in any way at all
        return image


@contextmanager
def _silence() -> Iterator[None]:
    """Of an EXIF block that is cut short Pillow warns; what it says before that still counts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def _in_8_bits(image: Image.Image) -> Image.Image:
    deep = np.asarray(image)
    if deep.dtype.kind == "f" or deep.min() < 0 or deep.max() >= 2**16:
        kind = "floating point" if deep.dtype.kind == "f" else "whole numbers"
        raise ImageError(
            f"its pixels are {kind} from {deep.min():g} to {deep.max():g}: expected 8 or 16 bits, "
            "from 0; save it so"
        )
    grey = Image.fromarray((deep // 257).astype(np.uint8))
    clear = image.info.get("transparency")
    if clear is not None:
        grey.putalpha(Image.fromarray(np.where(deep == clear, 0, 255).astype(np.uint8)))
    return grey


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
