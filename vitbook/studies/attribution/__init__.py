"""What the chapter on attribution asks: planted answers, scores, and what lies behind them."""

from collections.abc import Sequence

import torch
from einops import reduce
from jaxtyping import Bool, Float, Int64, UInt8
from torch import Tensor, nn

from vitbook import datasets
from vitbook.analysis import (
    EXPLANATIONS,
    deletion,
    edge_maps,
    integrated_gradients,
    map_grad_cam,
    on_grid,
    patch_occlusion,
    random_maps,
)
from vitbook.extras import from_extra
from vitbook.models.catalog import fresh_twin
from vitbook.studies.attribution.scores import READER, Planted, in_collages, planted, scored

with from_extra("chapters"):
    from scipy.stats import spearmanr

__all__ = [
    "READER",
    "Planted",
    "alike_on_ink",
    "collage",
    "digit_last",
    "four_maps",
    "in_collages",
    "planted",
    "race",
    "scored",
]


def collage(
    names: list[str], size: int = 224
) -> tuple[UInt8[Tensor, "channels size size"], Bool[Tensor, "quarters size size"]]:
    """Four of the nine photographs in one image, and the quarter in which each lies."""
    photos = datasets.load("photos", "all", image_size=size // 2)
    a, b, c, d = (photos.images[photos.class_names.index(name)] for name in names)
    image = torch.cat([torch.cat([a, b], 2), torch.cat([c, d], 2)], 1)
    quarter = torch.arange(size) * 2 // size
    return image, torch.stack(
        [(2 * quarter[:, None] + quarter) == each for each in range(len(names))]
    )


def four_maps(
    model: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    targets: Int64[Tensor, "batch"],
) -> dict[str, Float[Tensor, "batch 7 7"]]:
    """Three explanations of a convolutional network, and an edge detector, without their names."""
    taken = {"grid_size": (7, 7), "baseline": "mean"}
    maps = (
        patch_occlusion(model, images, targets, **taken),
        edge_maps(images, (7, 7)),
        integrated_gradients(model, images, targets, **taken, steps=16),
        map_grad_cam(model, images, targets),
    )
    return dict(zip("ABCD", maps, strict=True))


def alike_on_ink(
    model: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    targets: Int64[Tensor, "batch"],
) -> float:
    """Rank correlation of occlusion's map with that of fresh weights, over the cells with ink."""
    rows, columns = model.grid_size
    cells = reduce(images, "b c (r y) (s x) -> b (r s)", "max", r=rows, s=columns)
    trained, fresh = (
        patch_occlusion(each, images, targets).abs().flatten(1).cpu()
        for each in (model, fresh_twin(model).to(images.device))
    )
    ink = (cells > images.min()).cpu()
    found = [spearmanr(a[k], b[k])[0] for a, b, k in zip(trained, fresh, ink, strict=True)]
    return float(sum(found) / len(found))


def race(
    model: nn.Module, images: Float[Tensor, "1 channels height width"], names: Sequence[str]
) -> dict[str, Float[Tensor, "rows columns"]]:
    """Maps of the class that the model says, on cells of 2 x 2 patches, and a random order.

    Occlusion takes whole cells; of the others each cell has the mean of its patches.
    """
    targets = model(images).argmax(1)
    rows, columns = (side // 2 for side in model.grid_size)
    maps = {}
    for name in names:
        if name == "occlusion":
            given = {"grid_size": (rows, columns), "baseline": "mean"}
            maps[name] = patch_occlusion(model, images, targets, **given)[0]
        else:
            found = EXPLANATIONS[name](model, images, targets)
            maps[name] = reduce(found[0], "(r a) (c b) -> r c", "mean", a=2, b=2)
    return maps | {"chance": random_maps(1, (rows, columns))[0]}


def digit_last(
    model: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    targets: Int64[Tensor, "batch"],
    masks: Bool[Tensor, "batch height width"],
) -> dict[str, float]:
    """Mean area of deletion in the order of the edges, with the digit's cells last; and at random.

    If it were the edges as such that the model needs, the first would be below the second.
    """
    grid = model.grid_size
    inside = on_grid(masks.float(), grid)
    kept = edge_maps(images, grid).masked_fill(inside > 0, -1)
    orders = {"digit last": kept, "random": random_maps(len(images), grid)}
    return {
        name: deletion(model, images, targets, each).areas.mean().item()
        for name, each in orders.items()
    }
