"""The plots of a page: four files each, for light and dark, for a wide window and for a phone.

:mod:`vitbook.plots.page` writes both sizes into one SVG. An image in a file of its own loads
when it comes near, and its names and clips meet no other's.
"""

import re
from hashlib import sha256
from html import escape
from pathlib import Path
from urllib.parse import unquote

from vitbook.plots.page import NARROW

PLOT = re.compile(
    r'<img (?P<before>[^>]*?)src="(?P<folder>[^"]*_images/)(?P<name>[^"/]+\.svg)"[^>]*>'
)
SIZE = re.compile(r'<svg [^>]*?width="([\d.]+)pt" height="([\d.]+)pt"')
PHONE = "(max-width: 600px)"
# A colour of the drawing -> the same on dark paper. Colours of maps are pixels, and stay.
DARK = {
    "#000000": "#ced6dd",
    "#262626": "#ced6dd",
    "#333333": "#ced6dd",
    "#ffffff": "#121212",
    "#f2f2f2": "#2a2f36",
    "#d0d0d0": "#50565d",
    "#bbbbbb": "#5d646c",
    "#b0b0b0": "#7a828a",
    "#555555": "#b4bac0",
    "#707070": "#a0a6ac",
    "#777777": "#9aa0a6",
    "#808080": "#8f959b",
    "#0072b2": "#4aa5e0",
    "#d55e00": "#f08a4b",
    "#009e73": "#2fc79b",
    "#cc79a7": "#de9cc2",
    "#e69f00": "#f0b840",
    "#56b4e9": "#a5dcff",
}
COLOR = re.compile(r"#[0-9a-f]{6}\b")
# Text and what else has no fill of its own is black.
ROOT = re.compile(r"(<svg [^>]*?)>")


def halves(text: str) -> tuple[str, str]:
    """The wide plot and the one for a phone, which may be the same."""
    start, end = NARROW
    before, found, after = text.partition(start)
    small, _, rest = after.rpartition(end)
    return (before + rest, small) if found else (text, text)


def darkened(text: str) -> str:
    """The same plot for dark paper."""
    text = COLOR.sub(lambda color: DARK.get(color[0], color[0]), text)
    return ROOT.sub(rf'\1 fill="{DARK["#000000"]}">', text, count=1)


def measures(text: str) -> tuple[int, int]:
    """Width and height in pixels."""
    found = SIZE.search(text)
    return tuple(round(float(points) * 4 / 3) for points in found.groups())


def stored(text: str, folder: Path) -> str:
    """Write a plot under the digest of its content; its name."""
    name = f"{sha256(text.encode()).hexdigest()[:24]}.svg"
    path = folder / name
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return name


def picture(text: str, folder: Path, address: str, attributes: str, scheme: str) -> str:
    wide, small = halves(text)
    (width, height), (across, down) = measures(wide), measures(small)
    wide, small = (
        stored(darkened(half) if scheme == "dark" else half, folder) for half in (wide, small)
    )
    source, kind = "", f'vb-wide" style="--vb-width: {width}px'
    if small != wide:
        source, kind = (
            (
                f'<source media="{PHONE}" srcset="{escape(address + small)}" '
                f'width="{across}" height="{down}">'
            ),
            "vb-plot",
        )
    return (
        f'<picture class="vb-{scheme} {kind}">{source}<img {attributes}'
        f'src="{escape(address + wide)}" width="{width}" height="{height}" loading="lazy" />'
        "</picture>"
    )


def on_rendered(app, page) -> None:
    sources = {name: Path(app.srcdir, path) for path, name in app.builder.images.items()}
    folder = Path(app.outdir, app.builder.imagedir)

    def rewrite(tag: re.Match) -> str:
        source = sources.get(unquote(tag["name"]))
        if source is None or "jupyter_execute" not in source.parts:
            return tag[0]
        text = source.read_text(encoding="utf-8")
        return "".join(
            picture(text, folder, tag["folder"], tag["before"], scheme)
            for scheme in ("light", "dark")
        )

    page.html = PLOT.sub(rewrite, page.html)


def on_finish(app, exception) -> None:
    """What Sphinx copied is shown by no page: each plot went into its four."""
    if app.builder.format != "html":
        return
    for source, name in app.builder.images.items():
        if name.endswith(".svg") and "jupyter_execute" in Path(source).parts:
            Path(app.outdir, app.builder.imagedir, name).unlink(missing_ok=True)


def setup(app):
    app.setup_extension("vitbook_rendered")
    app.connect("page-rendered", on_rendered)
    app.connect("build-finished", on_finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
