"""Small drawings as text: PNG data addresses, heat maps, and SVG, with numpy alone."""

import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from operator import index

import numpy as np

Number = int | float

OKABE_ITO = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442", "#999999")
CIVIDIS = ("#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369",
           "#e1cc55", "#fee838")  # fmt: skip


def as_array(values) -> np.ndarray:
    """A numpy array from a tensor on any device and of any dtype, or from nested lists."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.float() if values.is_floating_point() else values
    return np.asarray(values)


def as_images(images) -> np.ndarray:
    """uint8 "n c h w" with one or three channels, or one sentence that says what came."""
    images = as_array(images)
    if images.ndim != 4 or images.dtype != np.uint8 or images.shape[1] not in (1, 3):
        raise ValueError(
            f"images came as {images.dtype} of shape {images.shape}, expected uint8 "
            "(n, 1 or 3, h, w): pass the data set's images before they are normalised"
        )
    if not images.size:
        raise ValueError("images came empty, expected at least one: pass images[:4], say")
    return images


def patch_at(place, grid_size: tuple[int, int]) -> int:
    """The number of the patch at (row, column), counted from 0."""
    (row, column), (rows, columns) = map(index, place), grid_size
    if not (0 <= row < rows and 0 <= column < columns):
        raise ValueError(
            f"patch ({row}, {column}): the grid has {rows} rows and {columns} columns, counted "
            "from 0"
        )
    return row * columns + column


def named(what: str, given: Sequence[str] | None, default: list[str]) -> list[str]:
    """Words for each image, as given or by default.

    Raises:
        ValueError: not one for each image.
    """
    if isinstance(given, str):
        raise ValueError(f"{what} came as the text {given!r}, expected a list: pass [{given!r}]")
    given = [str(each) for each in given] if given is not None else default
    if len(given) != len(default):
        raise ValueError(
            f"{len(given)} {what} came for {len(default)} images, expected one for each"
        )
    return given


def base64(array: np.ndarray) -> str:
    return b64encode(np.ascontiguousarray(array).tobytes()).decode()


def rgb(color: str) -> np.ndarray:
    return np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)], dtype=float)


def heat(weights: np.ndarray, top: Number) -> np.ndarray:
    """Weights "... h w" to uint8 "... h w 3": cividis along the square root, black-blue at 0."""
    stops = np.stack([rgb(color) for color in CIVIDIS])
    place = np.sqrt(np.clip(weights / max(top, 1e-12), 0, 1)) * (len(stops) - 1)
    low = np.minimum(place.astype(int), len(stops) - 2)
    part = (place - low)[..., None]
    return np.rint(stops[low] * (1 - part) + stops[low + 1] * part).astype(np.uint8)


def png(pixels: np.ndarray, colors: np.ndarray | None = None) -> str:
    """uint8 "h w", "h w 3", or "h w 4" with an alpha, as a data address.

    With ``colors``, "n 4", the pixels "h w" are numbers of these, which takes a third of the bytes.
    """
    height, width = pixels.shape[:2]
    rows = np.ascontiguousarray(pixels).reshape(height, -1)
    raw = np.concatenate([np.zeros((height, 1), np.uint8), rows], axis=1).tobytes()

    def chunk(kind: bytes, body: bytes) -> bytes:
        check = zlib.crc32(kind + body)
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", check)

    kind = {1: 0, 3: 2, 4: 6}[pixels.shape[2] if pixels.ndim == 3 else 1]
    palette = b""
    if colors is not None:
        kind, colors = 3, np.ascontiguousarray(colors, np.uint8)
        palette = chunk(b"PLTE", colors[:, :3].tobytes()) + chunk(b"tRNS", colors[:, 3].tobytes())
    header = struct.pack(">2I5B", width, height, 8, kind, 0, 0, 0)
    body = chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b"")
    head = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + palette
    return "data:image/png;base64," + b64encode(head + body).decode()


def image_png(image: np.ndarray) -> str:
    """One image "c h w" as a data address."""
    return png(image[0] if len(image) == 1 else image.transpose(1, 2, 0))


def tag(name: str, *children: str, **attributes: object) -> str:
    """An SVG element; `stroke_width=2` becomes `stroke-width="2"`."""
    pairs = (f' {k.rstrip("_").replace("_", "-")}="{_plain(v)}"' for k, v in attributes.items())
    return f"<{name}{''.join(pairs)}>{''.join(children)}</{name}>"


def _plain(value: object) -> str:
    return (
        f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else escape(str(value))
    )


def text(x: Number, y: Number, words: str, **attributes: object) -> str:
    return tag("text", escape(words), x=x, y=y, fill="currentColor", **attributes)


def pixels(
    address: str, x: Number, y: Number, width: Number, height: Number, **more: object
) -> str:
    """An image inside an SVG, magnified without smoothing."""
    return tag("image", href=address, x=x, y=y, width=width, height=height,
               preserveAspectRatio="none", style="image-rendering:pixelated", **more)  # fmt: skip


def framed(x: Number, y: Number, width: Number, height: Number, dashes: str = "none") -> str:
    """A frame inside a cell, white within black: it shows on every colour."""
    return "".join(
        tag("rect", x=x + inset, y=y + inset, width=max(width - 2 * inset, 1.0),
            height=max(height - 2 * inset, 1.0), fill="none", stroke=color, stroke_width=thick,
            stroke_dasharray=dash)
        for color, thick, inset, dash in (("#000", 4.5, 2.25, "none"), ("#fff", 2, 2, dashes))
    )  # fmt: skip


def drawing(width: Number, height: Number, alt: str, *children: str) -> str:
    return tag("svg", *children, viewBox=f"0 0 {width} {height}", role="img", aria_label=alt,
               font_size=12, style=f"max-width:{width}px")  # fmt: skip
