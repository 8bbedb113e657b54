"""Draw the pictures of the README, and the one that a shared page shows, from the book's models."""

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from einops import rearrange
from matplotlib.figure import Figure
from playwright.sync_api import sync_playwright
from torch import Tensor

import vitbook
from vitbook import datasets, plots
from vitbook.analysis import layer_tokens, object_mask, token_colors
from vitbook.plots.style import COLORS, INK
from vitbook.studies.vit.drawings import whole

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "book"))
from browser import FLAGS, chromium  # noqa: E402

OUT = ROOT / "book" / "_static"
MOST_BYTES = 200_000
SOCIAL = ("cat", "astronaut", "motorcycle", "coffee", "flower")
SHOWN = ("astronaut", "cat", "coffee", "motorcycle", "temple", "flower")


def photos_and_tokens(size: int, shown: tuple[str, ...]) -> tuple[Tensor, Tensor]:
    """Photographs, and a pretrained ViT's tokens of them as colours; both uint8, "n c h w"."""
    photos = datasets.load("photos", "all", image_size=size)
    real = vitbook.load_pretrained("vit_small_patch14_focus", image_size=size)
    images = torch.stack([photos.images[photos.class_names.index(name)] for name in shown])
    with torch.no_grad():
        found = torch.cat([layer_tokens(real.model, real.normalize(each[None])) for each in images])
    patches = found[:, real.model.num_prefix_tokens :]
    colors = token_colors(patches, object_mask(patches, real.model.grid_size))
    sheets = rearrange(colors, "n (r c) d -> n d r c", r=real.model.grid_size[0])
    return images, (255 * sheets).round().to(torch.uint8)


def tokens() -> Figure:
    """Photographs, and what a pretrained ViT makes of them."""
    images, sheets = photos_and_tokens(518, SHOWN)
    panels = dict(zip(SHOWN, images[..., ::2, ::2], strict=True))
    panels |= {f"{name}, its tokens": sheet for name, sheet in zip(SHOWN, sheets, strict=True)}
    return plots.image_grid(
        panels, "A Vision Transformer gives like things one colour", columns=len(SHOWN)
    )


def social() -> Figure:
    """The title over photographs and their tokens, to be read at a third of its size."""
    images, sheets = photos_and_tokens(518, SOCIAL)
    figure = Figure(figsize=(12, 6.3))
    figure.text(0.03, 0.89, "Vision Transformers,", fontsize=38, weight="bold", color=INK)
    figure.text(0.03, 0.79, "built and looked into", fontsize=38, weight="bold", color=INK)
    figure.text(0.97, 0.80, "vitbook", fontsize=30, color=COLORS[0], ha="right")
    for row, panels in enumerate((images, sheets)):
        for column, panel in enumerate(panels):
            axes = figure.add_axes(
                (0.03 + 0.19 * column, 0.405 - 0.365 * row, 0.18, 0.18 * 12 / 6.3)
            )
            axes.imshow(rearrange(panel, "c h w -> h w c"), interpolation="nearest")
            axes.axis("off")
    return figure


def whole_model(path: Path) -> None:
    """The whole ViT as the chapter on it draws it: a picture of the page."""
    photos = datasets.load("photos", "all", image_size=224)
    drawn = whole(photos.images[photos.class_names.index("cat")])
    words = "body { width: 860px; padding: 8px; background: white; font: 16px sans-serif }"
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        page = browser.new_page(device_scale_factor=2)
        page.set_content(f"<!doctype html><style>{words}</style><body>{drawn._repr_html_()}</body>")
        page.locator(".vb-diagram").screenshot(path=path)
        browser.close()


def main() -> None:
    def saved(draw: Callable[[], Figure], **options) -> Callable[[Path], None]:
        return lambda path: draw().savefig(path, facecolor="white", **options)

    for name, write in {
        "readme_tokens.jpg": saved(tokens, dpi=90, pil_kwargs={"quality": 82}),
        "social.jpg": saved(social, dpi=100, pil_kwargs={"quality": 84}),
        "readme_vit.png": whole_model,
    }.items():
        write(path := OUT / name)
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise SystemExit(f"{path.name} has {size} bytes, expected at most {MOST_BYTES}")
        print(f"wrote {path.relative_to(OUT.parents[1])}, {size / 1000:.0f} KB")


if __name__ == "__main__":
    main()
