"""What a table of positions follows, where a head looks, and what older methods read."""

from statistics import mean

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from vitbook import analysis, datasets
from vitbook.analysis import capture_attention
from vitbook.extras import from_extra
from vitbook.model_utilities import weights_digest
from vitbook.models import create_model
from vitbook.models.weights.pretrained import load_pretrained
from vitbook.runs.measuring import Sheet, measurement


def grid_trend(model: nn.Module) -> float:
    """Correlation of a position table's cosines with the distances of the positions.

    Over all pairs of different positions; near -1 where the nearer are the more similar.
    """
    ((table, grid, prefix),) = analysis.position_tables(model).values()
    tiles = analysis.positional_similarity(table.detach(), grid, prefix)
    return trend_of(rearrange(tiles, "i j k l -> (i j) (k l)"), grid)


def trend_of(cosines: Float[Tensor, "positions positions"], grid: tuple[int, int]) -> float:
    spots = torch.cartesian_prod(*(torch.arange(float(side)) for side in grid))
    pairs = torch.triu_indices(len(spots), len(spots), 1).unbind()
    both = torch.stack([torch.cdist(spots, spots)[pairs], cosines.float().cpu()[pairs]])
    return torch.corrcoef(both)[0, 1].item()


def older() -> dict[str, Tensor]:
    """What methods older than the Transformer take the held-out digits for, by their pixels."""
    with from_extra("chapters"):
        from sklearn.linear_model import LogisticRegression
        from sklearn.neighbors import KNeighborsClassifier
    train, test = (datasets.load("digits", split) for split in ("train", "test"))
    ways = {
        "logistic regression": LogisticRegression(max_iter=5000),
        "nearest neighbour": KNeighborsClassifier(n_neighbors=1),
    }
    return {
        name: torch.from_numpy(
            way.fit(train.images.flatten(1) / 255, train.labels).predict(
                test.images.flatten(1) / 255
            )
        )
        for name, way in ways.items()
    }


# Rows and columns of patches. A face: from one eye, or cheek, to six patches of the other.
FACES = {"eye": ((5, 4), (4, 6), (8, 11)), "cheek": ((8, 4), (7, 9), (8, 11))}
CAT = ((6, 5), (6, 9), (12, 14))


@measurement(
    needs=("chapters", "skimage"), eyes={"of": "{images}", "asks": "{asks}", "share": "{share:.3f}"}
)
def eyes(sheet: Sheet) -> None:
    """Ask a head of the pretrained ViT, chosen on the cat, whether it looks from eye to eye.

    In faces that it was not chosen on; the controls are a cheek that asks for the other cheek, and
    the same patches of pictures without a face.
    """
    name = "vit_small_patch14_focus"
    sheet.expect(name)
    seer = load_pretrained(name)
    photos = datasets.load("photos", "all")
    cat = seer.normalize(photos.images[photos.class_names.index("cat")][None])
    with torch.random.fork_rng():
        torch.manual_seed(0)
        fresh = create_model("vit_small_patch14_dinov2", image_size=224, num_classes=0).eval()
    found = looks(seer.model, cat, *CAT)[..., 0]
    layer, head = divmod(int(found.argmax()), found.shape[1])
    with from_extra("chapters"):
        from skimage.data import lfw_subset
    crops = torch.from_numpy(lfw_subset()).float()[:, None]  # 100 faces, then 100 without one
    rows = [
        {"images": "the cat", "asks": "eye", "shares": [found.max().item()]},
        {
            "images": "the cat, best head of fresh weights", "asks": "eye",
            "shares": [looks(fresh, cat, *CAT).max().item()],
        },
    ]  # fmt: skip
    for images, some in (("face", crops[:100]), ("no face", crops[100:])):
        large = F.interpolate(some.repeat(1, 3, 1, 1), size=224, mode="bicubic").clamp(0, 1)
        pixels = seer.normalize((255 * large).round().to(torch.uint8))
        for asks, where in FACES.items():
            shares = torch.cat(
                [looks(seer.model, x, *where)[layer, head] for x in pixels.split(20)]
            )
            rows.append({"images": images, "asks": asks, "shares": shares.tolist()})
    for row in rows:
        row["shares"] = [round(share, 5) for share in row["shares"]]
        row["share"] = mean(row["shares"])
    settings = {
        "shares": "of a patch's attention that lies on six patches around the other eye, or cheek",
        "layer": layer + 1, "head": head + 1, "even": round(6 / 257, 5), "faces": "LFW, 25 pixels",
        "chosen": "the head of the largest share on the cat", "weights": weights_digest(seer.model),
    }  # fmt: skip
    sheet.write(name, settings, rows)


@torch.no_grad()
def looks(
    model: nn.Module, images: Tensor, asks: tuple[int, int], rows: tuple[int, int],
    columns: tuple[int, int],
) -> Float[Tensor, "layers heads images"]:  # fmt: skip
    """How much of its attention the patch ``asks`` gives to the patches of a rectangle."""
    prefix, (_, width) = model.num_prefix_tokens, model.grid_size

    def share(weights: Tensor) -> Tensor:  # batch heads queries keys
        line = weights[:, :, prefix + asks[0] * width + asks[1], prefix:].unflatten(-1, (-1, width))
        return line[..., slice(*rows), slice(*columns)].sum((-2, -1)).mT

    with capture_attention(model, reduce=share) as maps:
        model(images)
    return torch.stack(list(maps.values()))
