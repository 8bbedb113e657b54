"""Figures of a built page: drawn as SVG, once for a wide window and once for a phone.

A page holds each figure in two sizes and two schemes of colours and shows one of the four
(``book/_ext/vitbook_plots.py`` takes them apart). In a notebook a figure stays what it is.
"""

import io
import os
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps

from matplotlib import rc_context
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from PIL import Image

PHONE = 3.7  # inches: what a phone leaves beside its margins, at 96 pixels each
# Where a page says `NARROW`, the same figure for a phone follows.
NARROW = ("<defs class='narrow'>", "</defs>")
LOSSLESS = 30_000  # bytes: a photograph that takes more is kept as the eye sees it
QUALITY = 90
DPI = 110  # of photographs that are larger than their place
FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

_narrow = ContextVar("narrow", default=False)
_FAMILY = re.compile(r"font-family: [^;\"]*")
_PICTURE = re.compile(r"data:image/png;base64,([A-Za-z0-9+/=\s]+)")
# What the name of a file may hold and XML does not.
_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_HEAD = re.compile(r"^.*?(?=<svg)|<metadata>.*?</metadata>|<!--.*?-->", re.DOTALL)


def is_narrow() -> bool:
    """Whether the figure that is drawn now is the one for a phone."""
    return _narrow.get()


@contextmanager
def narrow():
    """Figures drawn within are for a phone."""
    token = _narrow.set(True)
    try:
        yield
    finally:
        _narrow.reset(token)


def for_pages(draw: Callable[..., Figure]) -> Callable[..., Figure]:
    """Give the figures of a function their form for pages, where a page is being built.

    The arguments are read twice: no iterators among them.
    """

    @wraps(draw)
    def drawn(*args, **options) -> Figure:
        figure = draw(*args, **options)
        if _is_for_a_page() and not is_narrow():
            with narrow():
                small = draw(*args, **options)
            # Not a method of a class: IPython asks the object, and matplotlib makes it.
            figure._repr_svg_ = lambda: page_svg(figure, small)
        return figure

    return drawn


def _is_for_a_page() -> bool:
    """Whether a page is built, or chapters are checked whose outputs a page may take."""
    return os.environ.get("VITBOOK_STATIC") == "1" or os.environ.get("VITBOOK_PLOTS") == "page"


def page_svg(wide: Figure, small: Figure | None = None) -> str:
    """A figure as SVG text; where the one for a phone is narrower, that one stands at its end."""
    text = svg(wide)
    if small is None or small.get_figwidth() >= wide.get_figwidth():
        return text
    start, end = NARROW
    return text.replace("</svg>", f"{start}{svg(small)}{end}</svg>")


def svg(figure: Figure) -> str:
    """A figure as SVG with real text and no paper, its pictures as WebP."""
    for mesh in figure.findobj(QuadMesh):
        mesh.set_rasterized(True)  # a colour bar is 256 paths otherwise
    for image in figure.findobj(AxesImage):
        if _has_room(image):
            image.set_interpolation("none")  # its own pixels, for the browser to enlarge
    out = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "vitbook"}):
        figure.savefig(out, format="svg", transparent=True, bbox_inches="tight", dpi=DPI,
                       metadata={"Date": None})  # fmt: skip
    text = _UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", _HEAD.sub("", out.getvalue()))
    text = _FAMILY.sub(f"font-family: {FONTS}", text)
    return _PICTURE.sub(lambda found: _lighter(b64decode(found[1])), text)


def _has_room(image: AxesImage) -> bool:
    """Whether the image's place on the page has as many pixels as the image."""
    place = image.axes.get_window_extent()
    across, down = image.get_size()[::-1]
    scale = DPI / image.get_figure(root=True).dpi
    return bool(across <= scale * place.width * 1.2 and down <= scale * place.height * 1.2)


def _lighter(png: bytes) -> str:
    """A picture as a data address: lossless, but of a photograph what the eye sees."""
    with Image.open(io.BytesIO(png)) as image:
        out = io.BytesIO()
        image.save(out, "WEBP", lossless=True, quality=60, method=4, exact=True)
        if out.tell() > LOSSLESS:
            out = io.BytesIO()
            image.save(out, "WEBP", quality=QUALITY, method=4)
    kind, data = min(("webp", out.getvalue()), ("png", png), key=lambda each: len(each[1]))
    return f"data:image/{kind};base64,{b64encode(data).decode()}"
