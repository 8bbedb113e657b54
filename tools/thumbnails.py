"""Cut a small picture of each chapter, for the contents of the front page, from the built book.

The notebook says which of its figures, and which part of it, in its metadata: left, top, right and
bottom, as shares. Cut it anew (`make thumbnails`) when that figure changes.
"""

import io
import json
import sys
from pathlib import Path

from PIL import Image, ImageOps
from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "book"))
from browser import FLAGS, READY, chromium, serve  # noqa: E402

OUT = ROOT / "book" / "thumbnails"
SIZE = (200, 125)
MOST_BYTES = 10_000
FIGURES = ".vitbook-figure, .cell_output picture.vb-light img"


def parts() -> dict[str, dict]:
    """Chapter -> the figure of it, by number, and the part that is shown."""
    books = {path.stem: json.loads(path.read_text("utf-8")) for path in ROOT.glob("book/*.ipynb")}
    told = {name: book["metadata"].get("thumbnail") for name, book in sorted(books.items())}
    return {name: chosen for name, chosen in told.items() if chosen}


def cut(browser: Browser, site: str, chapter: str, chosen: dict) -> Image.Image:
    """The part of a chapter's figure, on the paper of the page."""
    left, top, right, bottom = chosen["part"]
    page = browser.new_page(viewport={"width": 1300, "height": 900}, device_scale_factor=1.5)
    page.goto(f"{site}/book/{chapter}.html")
    page.evaluate(READY)
    figure = page.locator(FIGURES).nth(chosen["figure"])
    figure.scroll_into_view_if_needed()
    page.wait_for_timeout(600)
    shot = Image.open(io.BytesIO(figure.screenshot())).convert("RGB")
    page.close()
    across, down = shot.size
    box = (round(left * across), round(top * down), round(right * across), round(bottom * down))
    return ImageOps.fit(shot.crop(box), SIZE, Image.Resampling.LANCZOS)


def main() -> None:
    OUT.mkdir(exist_ok=True)
    with serve(ROOT / "_build" / "html") as site, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        for chapter, chosen in parts().items():
            path = OUT / f"{chapter}.webp"
            cut(browser, site, chapter, chosen).save(path, quality=68, method=6)
            if path.stat().st_size > MOST_BYTES:
                raise SystemExit(
                    f"{path.name} has {path.stat().st_size} bytes: at most {MOST_BYTES}"
                )
        browser.close()
    total = sum(path.stat().st_size for path in OUT.glob("*.webp"))
    print(f"wrote {len(parts())} thumbnails to {OUT.relative_to(ROOT)}, {total / 1000:.0f} KB")


if __name__ == "__main__":
    main()
