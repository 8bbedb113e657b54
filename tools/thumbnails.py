"""Cut a small picture of each chapter, for the contents of the front page, from the built book.

It shows the chapter's own figure, so draw it anew (`make pictures`) when that figure changes.
"""

import io
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "book"))
from browser import FLAGS, READY, chromium, serve  # noqa: E402

OUT = ROOT / "book" / "thumbnails"
SIZE = (240, 150)
MOST_BYTES = 10_000
FIGURES = ".vitbook-figure, .cell_output picture.vb-light"
# Chapter -> number of its figure, and the part of it: left, top, right and bottom, as shares.
PARTS = {
    "attention": (2, (0.0, 0.2, 0.48, 0.62)),
    "vit": (0, (0.0, 0.16, 1.0, 1.0)),
    "positions": (4, (0.0, 0.16, 0.42, 1.0)),
    "normalization": (3, (0.1, 0.12, 1.0, 0.9)),
    "convolutions": (1, (0.0, 0.12, 0.42, 0.55)),
    "rotated_patches": (0, (0.0, 0.2, 1.0, 1.0)),
    "shifted_patches": (0, (0.0, 0.22, 0.9, 1.0)),
    "tokens_to_token": (0, (0.0, 0.1, 1.0, 0.55)),
    "cnn_designs": (0, (0.0, 0.1, 1.0, 0.75)),
    "efficient_attention": (1, (0.0, 0.3, 0.95, 0.72)),
    "distillation": (4, (0.0, 0.15, 1.0, 0.75)),
    "small_data_benchmark": (3, (0.1, 0.12, 1.0, 0.8)),
    "scale": (0, (0.0, 0.1, 1.0, 0.75)),
    "self_supervision": (0, (0.0, 0.1, 0.75, 1.0)),
    "fine_tuning": (1, (0.0, 0.1, 1.0, 1.0)),
    "quantization": (0, (0.0, 0.1, 0.75, 1.0)),
    "filters_and_positions": (0, (0.0, 0.1, 1.0, 0.6)),
    "attention_distance": (6, (0.0, 0.08, 0.5, 0.6)),
    "rollout": (6, (0.0, 0.1, 0.75, 0.55)),
    "attribution": (0, (0.0, 0.14, 1.0, 0.75)),
    "interventions": (0, (0.0, 0.15, 0.66, 1.0)),
    "feature_maps": (6, (0.0, 0.08, 1.0, 0.9)),
    "pitfalls": (0, (0.0, 0.15, 0.9, 1.0)),
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
    width, height = shot.size
    part = shot.crop(
        (round(left * width), round(top * height), round(right * width), round(bottom * height))
    )
    part.thumbnail(SIZE, Image.Resampling.LANCZOS)
    small = Image.new("RGB", SIZE, "white")
    small.paste(part, ((SIZE[0] - part.width) // 2, (SIZE[1] - part.height) // 2))
    return small


def main() -> None:
    OUT.mkdir(exist_ok=True)
    with serve(ROOT / "_build" / "html") as site, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        for chapter in PARTS:
            path = OUT / f"{chapter}.webp"
            cut(browser, site, chapter).save(path, quality=80, method=6)
            if path.stat().st_size > MOST_BYTES:
                raise SystemExit(
                    f"{path.name} has {path.stat().st_size} bytes: at most {MOST_BYTES}"
                )
        browser.close()
    total = sum(path.stat().st_size for path in OUT.glob("*.webp"))
    print(f"wrote {len(PARTS)} thumbnails to {OUT.relative_to(ROOT)}, {total / 1000:.0f} KB")


if __name__ == "__main__":
    main()
