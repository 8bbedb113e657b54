"""Cut a small picture of each chapter, for the contents of the front page, from the built book.

It shows the chapter's own figure, so draw it anew (`make pictures`) when that figure changes.
"""

import io
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
# Chapter -> number of its figure, and the part of it: left, top, right and bottom, as shares.
PARTS = {
    "attention": (2, (0.0, 0.2, 0.48, 0.56)),
    "vit": (0, (0.0, 0.25, 1.0, 0.9)),
    "positions": (4, (0.0, 0.2, 0.42, 0.7)),
    "normalization": (3, (0.12, 0.16, 0.95, 0.88)),
    "convolutions": (2, (0.0, 0.33, 0.56, 0.62)),
    "rotated_patches": (0, (0.0, 0.25, 0.66, 1.0)),
    "shifted_patches": (0, (0.0, 0.3, 0.62, 0.98)),
    "tokens_to_token": (0, (0.0, 0.14, 1.0, 0.5)),
    "cnn_designs": (0, (0.0, 0.1, 1.0, 0.76)),
    "efficient_attention": (2, (0.0, 0.06, 1.0, 0.5)),
    "distillation": (4, (0.0, 0.14, 0.5, 0.76)),
    "small_data_benchmark": (3, (0.0, 0.12, 1.0, 0.84)),
    "scale": (0, (0.0, 0.1, 1.0, 0.78)),
    "self_supervision": (0, (0.0, 0.1, 0.5, 1.0)),
    "fine_tuning": (1, (0.0, 0.14, 0.67, 0.98)),
    "quantization": (0, (0.0, 0.12, 0.5, 0.55)),
    "filters_and_positions": (0, (0.0, 0.12, 1.0, 0.55)),
    "attention_distance": (6, (0.1, 0.08, 0.45, 0.45)),
    "rollout": (6, (0.06, 0.1, 0.75, 0.52)),
    "attribution": (0, (0.06, 0.14, 0.66, 0.64)),
    "interventions": (0, (0.05, 0.15, 0.5, 0.58)),
    "feature_maps": (6, (0.0, 0.14, 0.67, 0.53)),
    "pitfalls": (0, (0.0, 0.3, 0.6, 0.95)),
}


def cut(browser: Browser, site: str, chapter: str) -> Image.Image:
    """The part of a chapter's figure, on the paper of the page."""
    number, (left, top, right, bottom) = PARTS[chapter]
    page = browser.new_page(viewport={"width": 1300, "height": 900}, device_scale_factor=1.5)
    page.goto(f"{site}/book/{chapter}.html")
    page.evaluate(READY)
    figure = page.locator(FIGURES).nth(number)
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
        for chapter in PARTS:
            path = OUT / f"{chapter}.webp"
            cut(browser, site, chapter).save(path, quality=68, method=6)
            if path.stat().st_size > MOST_BYTES:
                raise SystemExit(
                    f"{path.name} has {path.stat().st_size} bytes: at most {MOST_BYTES}"
                )
        browser.close()
    total = sum(path.stat().st_size for path in OUT.glob("*.webp"))
    print(f"wrote {len(PARTS)} thumbnails to {OUT.relative_to(ROOT)}, {total / 1000:.0f} KB")


if __name__ == "__main__":
    main()
