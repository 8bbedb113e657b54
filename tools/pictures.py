"""Draw the pictures of the README, and the one that a shared page shows, from the book's models."""

from pathlib import Path

import torch
from einops import rearrange
from matplotlib.figure import Figure
from torch import Tensor

import vitbook
from vitbook import datasets, plots
from vitbook.analysis import capture_attention, object_mask, token_colors
from vitbook.plots.style import COLORS, INK

OUT = Path(__file__).resolve().parent.parent / "book" / "_static"
MOST_BYTES = 200_000
SOCIAL = ("cat", "astronaut", "motorcycle", "coffee", "flower")
SHOWN = ("astronaut", "cat", "coffee", "motorcycle", "temple", "flower")


def photos_and_tokens(size: int, shown: tuple[str, ...]) -> tuple[Tensor, Tensor]:
    """Photographs, and a pretrained ViT's tokens of them as colours; both uint8, "n c h w"."""
    photos = datasets.load("photos", "all", image_size=size)
    real = vitbook.load_pretrained("vit_small_patch14_focus", image_size=size)
    images = torch.stack([photos.images[photos.class_names.index(name)] for name in shown])
    with torch.no_grad():
        found = torch.cat([real.model.features(real.normalize(each[None])) for each in images])
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


def attention() -> Figure:
    """What the class token of the smallest model reads, trained and random."""
    name = "vit_micro_patch2_8"
    trained = vitbook.load_checkpoint(f"digits-{name}-digits-seed0").model
    torch.manual_seed(0)
    models = {"trained": trained, "random": vitbook.create_model(name).eval()}
    test = datasets.load("digits", "test")
    index = int((test.labels == 8).nonzero()[0])
    panels = {}
    for label, model in models.items():
        if label == "random":
            panels["uniform"] = torch.full((4, 4), 1 / 17)
        with torch.no_grad(), capture_attention(model) as maps:
            model(datasets.normalize(test.images[index : index + 1]))
        last = list(maps.values())[-1][0, :, 0, model.num_prefix_tokens :]
        for head, weights in enumerate(last):
            panels[f"{label}, head {head}"] = weights.reshape(model.grid_size)
    return plots.heat_maps(
        panels,
        "What the class token reads: trained heads choose, random ones do not",
        image=test.images[index],
        columns=5,
    )


def main() -> None:
    for draw, name, options in (
        (tokens, "readme_tokens.jpg", dict(dpi=90, pil_kwargs={"quality": 82})),
        (attention, "readme_attention.png", dict(dpi=110)),
        (social, "social.jpg", dict(dpi=100, pil_kwargs={"quality": 84})),
    ):
        path = OUT / name
        draw().savefig(path, facecolor="white", **options)
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise SystemExit(f"{path.name} has {size} bytes, expected at most {MOST_BYTES}")
        print(f"wrote {path.relative_to(OUT.parents[1])}, {size / 1000:.0f} KB")


if __name__ == "__main__":
    main()
