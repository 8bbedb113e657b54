"""Encoded pictures to pixels, all of one size."""

import io

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import UInt8
from PIL import Image, ImageOps
from torch import Tensor

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


def resize(
    images: UInt8[Tensor, "n channels height width"], size: int
) -> UInt8[Tensor, "n channels {size} {size}"]:
    """The centre square of each picture, bicubic with antialiasing; any number of channels."""
    side = min(images.shape[-2:])
    top, left = ((length - side) // 2 for length in images.shape[-2:])
    images = images[..., top : top + side, left : left + side]
    if side == size:
        return images
    images = F.interpolate(images.float(), size=(size, size), mode="bicubic", antialias=True)
    return images.round().clamp(0, 255).to(torch.uint8)


def from_photo(
    photo: UInt8[np.ndarray, "height width channels"], size: int
) -> UInt8[Tensor, "3 {size} {size}"]:
    """Pixels as scikit-image reads them, as one square picture; a fourth channel is dropped."""
    image = rearrange(torch.from_numpy(photo[..., :3].copy()), "h w c -> 1 c h w")
    return resize(image, size)[0]
