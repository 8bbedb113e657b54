"""Draw the pictures of the README from the book's models and data."""

from pathlib import Path

import torch
from einops import rearrange
from matplotlib.figure import Figure

import vitbook
from vitbook import datasets, plotting
from vitbook.analysis import capture_attention, object_mask, token_colors

OUT = Path(__file__).resolve().parent.parent / "book" / "_static"
MOST_BYTES = 200_000
SHOWN = ("astronaut", "cat", "coffee", "motorcycle", "temple", "flower")


def tokens() -> Figure:
    """Photographs, and what a pretrained ViT makes of them."""
    size = 518
    photos = datasets.load("photos", "all", image_size=size)
    real = vitbook.load_pretrained("vit_small_patch14_focus", image_size=size)
    images = torch.stack([photos.images[photos.class_names.index(name)] for name in SHOWN])
    with torch.no_grad():
        found = torch.cat([real.model.features(real.normalize(each[None])) for each in images])
    patches = found[:, real.model.num_prefix_tokens :]
    colors = token_colors(patches, object_mask(patches, real.model.grid_size))
    sheets = rearrange(colors, "n (r c) d -> n d r c", r=real.model.grid_size[0])
    panels = dict(zip(SHOWN, images[..., ::2, ::2], strict=True))
    for name, sheet in zip(SHOWN, sheets, strict=True):
        panels[f"{name}, its tokens"] = (255 * sheet).round().to(torch.uint8)
    return plotting.image_grid(
        panels, "A Vision Transformer gives like things one colour", columns=len(SHOWN)
    )


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
    return plotting.heat_maps(
        panels,
        "What the class token reads: trained heads choose, random ones do not",
        image=test.images[index],
        columns=5,
    )


def main() -> None:
    for draw, kind, options in (
        (tokens, "jpg", dict(dpi=90, pil_kwargs={"quality": 82})),
        (attention, "png", dict(dpi=110)),
    ):
        path = OUT / f"readme_{draw.__name__}.{kind}"
        draw().savefig(path, facecolor="white", **options)
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise SystemExit(f"{path.name} has {size} bytes, expected at most {MOST_BYTES}")
        print(f"wrote {path.relative_to(OUT.parents[1])}, {size / 1000:.0f} KB")


if __name__ == "__main__":
    main()
