"""What the chapter on attribution asks: planted answers, scores, and what lies behind them."""

from collections.abc import Sequence

import torch
from einops import reduce
from jaxtyping import Bool, Float, Int64, UInt8
from torch import Tensor, nn

import vitbook
from vitbook import datasets, runs
from vitbook.analysis import (
    EXPLANATIONS,
    deletion,
    edge_maps,
    integrated_gradients,
    map_grad_cam,
    null_explanations,
    on_grid,
    patch_occlusion,
    random_maps,
)
from vitbook.analysis.attribution.scoring import SCORES, mean_interval
from vitbook.extras import from_extra
from vitbook.models.catalog import fresh_twin
from vitbook.runs.evidence import Evidence, Table
from vitbook.runs.measuring import Sheet, measurement
from vitbook.runs.rows import Measurement
from vitbook.training.asked import SomeImages

with from_extra("chapters"):
    from scipy.stats import spearmanr

READER = "cluttered_digits-vit_micro_r5_s4_32-cluttered-seed0"
WAYS = ("mean", "black", "imputed")  # what a cell becomes
STEPS = 16  # of deletion, as in the scores
TWIN = ", untrained twin"


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


def scores(subject: str = READER) -> dict[str, dict]:
    """Name of an explanation -> its recorded scores."""
    (row,) = runs.measurements("explanations", subject)
    return {each["name"]: each for each in row.rows}


def told(name: str, score: str) -> str:
    """A recorded score, or lead over the edges, with its 95 % interval over the images."""
    form = (3, "+") if score.endswith("lead") else (2,)
    return _span(scores()[name][score], *form)


def lead(name: str, way: str) -> str:
    """By how much an order beats that of the edges, with its 95 % interval."""
    (row,) = (row for row in removed().rows if row["name"] == name)
    return _span(row[f"{way} lead"], 3, "+")


@measurement(
    needs=("chapters", "captum"),
    removals={"order": "{name}"} | {way: f"{{{way}:.3f}}" for way in WAYS},
)
def removals(sheet: Sheet, num_images: SomeImages = None) -> None:
    """Delete cells of digits among clutter, in the order of each explanation, in three ways.

    A cell becomes the mean colour, black, or what is around it.
    """
    sheet.expect(READER)
    model = vitbook.load_checkpoint(READER).model.to(sheet.device)
    test, masks = datasets.load("cluttered_digits", "test"), datasets.digit_masks("test")
    images = datasets.normalize(test.images[:num_images]).to(sheet.device)
    targets, masks = (each[:num_images].to(sheet.device) for each in (test.labels, masks))
    orders = {name: explain(model, images, targets) for name, explain in EXPLANATIONS.items()}
    orders |= null_explanations(images, masks, model.grid_size)
    areas = {
        name: {
            way: deletion(model, images, targets, maps, baseline=way, steps=STEPS).areas
            for way in WAYS
        }
        for name, maps in orders.items()
    }
    rows = [
        {"name": name}
        | {way: mean_interval(each[way]) for way in WAYS}
        | {f"{way} lead": mean_interval(areas["edges"][way] - each[way]) for way in WAYS}
        for name, each in areas.items()
    ]
    settings = {
        "dataset": "cluttered_digits", "split": "test", "pictures": len(images), "steps": STEPS,
        "class": "the label", "interval": "bootstrap over images, 95 %", "leads": "over the edges",
        "imputed": "each pixel the weighted mean of its neighbours, noise of 0.01",
    }  # fmt: skip
    sheet.write(READER, settings, rows)


def removed() -> Measurement:
    """What was recorded of the three ways."""
    (row,) = runs.measurements("removals", READER)
    return row


def removal_ranks() -> dict[str, float]:
    """Rank correlation of all orders by deletion to the mean colour with those by another way."""
    areas = {way: [each[way][0] for each in removed().rows] for way in WAYS}
    return {way: float(spearmanr(areas["mean"], areas[way])[0]) for way in WAYS[1:]}


def alike_on_ink(
    model: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    targets: Int64[Tensor, "batch"],
) -> float:
    """Rank correlation of occlusion's map with that of fresh weights, over the cells with ink."""
    rows, columns = model.grid_size
    cells = reduce(images, "b c (r y) (s x) -> b (r s)", "max", r=rows, s=columns)
    trained, fresh = (
        patch_occlusion(each, images, targets).abs().flatten(1)
        for each in (model, fresh_twin(model))
    )
    ink = cells > images.min()
    found = [spearmanr(a[k], b[k])[0] for a, b, k in zip(trained, fresh, ink, strict=True)]
    return float(sum(found) / len(found))


def in_collages(name: str, reads: str) -> str:
    """How often a map of the pretrained ViT points into the quarter of the class asked about."""
    (row,) = runs.measurements("collages", "vit_small_patch14_focus-tiny_imagenet")
    (found,) = (each for each in row.rows if (each["name"], each["reads"]) == (name, reads))
    return _span(found["pointing"])


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


def _span(values: list[float] | None, digits: int = 2, sign: str = "") -> str:
    if values is None:
        return ""
    mean, low, high = values
    number = f"{sign}.{digits}f"
    return f"{mean:{number}} [{low:{number}}, {high:{number}}]".replace("-", "−")


def evidence() -> Evidence:
    return Evidence((), [_all_scores(), _leads(), _removals(), _twins(), _on_a_cnn()])


def _lines(found: dict[str, dict], keys: dict[str, str], **form) -> list[dict[str, str]]:
    return [
        {"explanation": name} | {title: _span(row[key], **form) for title, key in keys.items()}
        for name, row in found.items()
        if TWIN not in name
    ]


def _all_scores() -> Table:
    (row,) = runs.measurements("explanations", READER)
    settings = row.settings
    return Table(
        "All explanations, and four controls",
        f"Means over {settings['pictures']} held-out images with 95 % intervals by the bootstrap: "
        "images drawn again, 2,000 times. Pointing: more is better. Deletion: area under the "
        "probability of the class while cells go, less is better; cells become the mean colour. "
        "Insertion: while they come back into the blurred image, more is better. "
        f"{settings['steps']} steps. The last four know no model; the mask is the digit's own. One "
        f"model, one seed. Made by `{row.command}`.",
        _lines(scores(), {score: score for score in SCORES}),
    )


def _leads() -> Table:
    return Table(
        "Leads over the edge detector",
        "Image by image, so that images which are easy for both do not count. Above zero the "
        "explanation is better, in all three scores.",
        _lines(scores(), {score: f"{score} lead" for score in SCORES}, digits=3, sign="+"),
    )


def _removals() -> Table:
    row = removed()
    return Table(
        "Deletion, with what a cell becomes",
        "Area of deletion, in the mean of the images with 95 % intervals, and the lead over the "
        f"edges where holes are filled in. {row.settings['pictures']} images, "
        f"{row.settings['steps']} steps. Imputed: {row.settings['imputed']} (ROAD, Rong et al. "
        f"2022). Made by `{row.command}`.",
        [
            line | {"lead, imputed": lead(line["explanation"], "imputed")}
            for line in _lines({each["name"]: each for each in row.rows}, {w: w for w in WAYS})
        ],
    )


def _twins() -> Table:
    found = scores()
    return Table(
        "Trained, and with fresh weights",
        "The same explanation of a model of fresh weights (one seed), scored on the trained model "
        "(Adebayo et al. 2018). Alike: rank correlation of the two maps, signs left out, in the "
        "mean of the images. Where the paper is black occlusion and integrated gradients are 0 in "
        "both maps: taking black away changes nothing. That makes their maps alike.",
        [
            {
                "explanation": name, "pointing": _span(row["pointing"]),
                "pointing, fresh": _span(found[f"{name}{TWIN}"]["pointing"]),
                "alike": _span(row.get("twin")),
            }
            for name, row in found.items() if f"{name}{TWIN}" in found
        ],
    )  # fmt: skip


def _on_a_cnn() -> Table:
    (row,) = [row for row in runs.read() if row.experiment == "explained_cnn"]
    found = scores(f"{READER}-beside-{row.name}")
    ending = f", {row.name}"
    of_cnn = {name.removesuffix(ending): each for name, each in found.items() if ending in name}
    return Table(
        "A ResNet-20 on the same images",
        f"It learned the same pictures and reads {100 * row.accuracy:.1f} % of those held out. One "
        "seed. Its last map is averaged into the logits, so the mean in Grad-CAM changes nothing. "
        "By insertion Grad-CAM is the last all the same, perhaps because a cell of that map has "
        "seen far more than its own patch.",
        _lines(of_cnn, {score: score for score in SCORES}),
    )
