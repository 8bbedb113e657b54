"""The pictures of a page that are no plots: as WebP where that is smaller, loaded when near.

The change is lossless. Width and height are written out, so that the text does not jump when an
image arrives.
"""

import re
from pathlib import Path
from urllib.parse import unquote

from PIL import Image

IMAGE = re.compile(
    r'<img (?P<before>[^>]*?)src="(?P<folder>[^"]*_images/)(?P<name>[^"/]+\.(?:png|webp))"'
)
METHOD = 4  # of seven; the last two take ten times as long for the last 2 %


def lighter(source: Path, target: Path) -> Path | None:
    """An image as lossless WebP, or nothing where it is no smaller."""
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with Image.open(source) as image:
            image.save(target, lossless=True, quality=60, method=METHOD, exact=True)
    return target if target.stat().st_size < source.stat().st_size else None


def on_rendered(app, page) -> None:
    sources = {name: Path(app.srcdir, path) for path, name in app.builder.images.items()}
    folder = Path(app.outdir, app.builder.imagedir)

    def rewrite(tag: re.Match) -> str:
        name = unquote(tag["name"])
        source = sources.get(name)
        if not source:
            return tag[0]
        with Image.open(source) as image:
            width, height = image.size
        webp = source.suffix == ".png" and lighter(source, folder / f"{Path(name).stem}.webp")
        shape = (
            ""
            if re.search(r"\b(width|height)=", tag["before"])
            else (f' width="{width}" height="{height}"')
        )
        shown = webp.name if webp else tag["name"]
        return f'<img {tag["before"]}src="{tag["folder"]}{shown}"{shape} loading="lazy"'

    page.html = IMAGE.sub(rewrite, page.html)


def on_finish(app, exception) -> None:
    """A copy that no page shows is not sent along."""
    if app.builder.format != "html":
        return
    for webp in Path(app.outdir, app.builder.imagedir).glob("*.webp"):
        png = webp.with_suffix(".png")
        if png.exists():
            (webp if webp.stat().st_size >= png.stat().st_size else png).unlink()


def setup(app):
    app.setup_extension("vitbook_rendered")
    app.connect("page-rendered", on_rendered)
    app.connect("build-finished", on_finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
