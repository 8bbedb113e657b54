"""A patch and its twin: the most similar token in a mirrored photograph, and where it should be."""

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int64
from torch import Tensor

from vitbook import datasets
from vitbook.datasets.resizing import resize
from vitbook.models.catalog import fresh_twin
from vitbook.models.weights.pretrained import load_pretrained
from vitbook.runs.measuring import Sheet, measurement
from vitbook.studies.dense.measured import SIDE, VIT, block_tokens, told

PHOTOGRAPHS, NEAR = 100, 1


def most_similar(
    tokens: Float[Tensor, "n patches width"], others: Float[Tensor, "n patches width"]
) -> Int64[Tensor, "n patches"]:
    """Of each patch the patch of the other view with the largest cosine, less the mean token."""
    middle = torch.cat([tokens, others]).flatten(0, 1).mean(0)
    one, other = (F.normalize(each - middle, dim=-1) for each in (tokens, others))
    return (one @ other.transpose(1, 2)).argmax(2)


def apart(
    found: Int64[Tensor, "n patches"], wanted: Int64[Tensor, "patches"], columns: int
) -> Int64[Tensor, "n patches"]:
    """Patches between two positions: the larger of rows and columns."""
    rows = (found // columns - wanted // columns).abs()
    return torch.maximum(rows, (found % columns - wanted % columns).abs())


def mirrored(rows: int, columns: int) -> Int64[Tensor, "patches"]:
    """Where each patch goes when left and right change places.

    Example:
        >>> from vitbook.studies.dense.twins import mirrored
        >>> mirrored(2, 3).tolist()
        [2, 1, 0, 5, 4, 3]
    """
    return rearrange(torch.arange(rows * columns), "(r c) -> r c", c=columns).flip(1).flatten()


@measurement(
    twins={"weights": "{weights}", "block": "{block}", "twin": "{twin:.1%}",
           "same position": "{same_position:.1%}"}
)  # fmt: skip
def twins(sheet: Sheet) -> None:
    """Ask patches of photographs for the most similar patch of the mirrored photograph."""
    sheet.expect(VIT)
    images = datasets.load("tf_flowers", "test", image_size=160).images[:PHOTOGRAPHS]
    vit = load_pretrained(VIT, image_size=SIDE)
    seen = resize(images, SIDE)
    rows, columns = vit.model.grid_size
    to, here = mirrored(rows, columns), torch.arange(rows * columns)
    asked = apart(here[None], to, columns)[0] > 2 * NEAR + 1  # else twin and position are one

    def rows_of(name: str, model: torch.nn.Module) -> list[dict]:
        both = [
            block_tokens(model, vit.normalize(each).to(sheet.device))
            for each in (seen, seen.flip(-1))
        ]
        lines = []
        for number, block in enumerate(both[0], start=1):
            found = most_similar(both[0][block], both[1][block])
            near = {"twin": apart(found, to, columns), "same_position": apart(found, here, columns)}
            shares = {
                key: (each <= NEAR)[:, asked].float().mean(1).tolist() for key, each in near.items()
            }
            lines.append({"weights": name, "block": number}
                         | {key: told(each) for key, each in shares.items()})  # fmt: skip
        return lines

    known = {"learned": vit.model, "fresh": fresh_twin(vit.model)}
    lines = [
        line
        for name, model in known.items()
        for line in sheet.once(name, rows_of, name, model.to(sheet.device))
    ]
    anywhere = apart(here[:, None].expand(-1, len(to)), to, columns)
    chance = (anywhere <= NEAR)[:, asked].float().mean().item()
    settings = {
        "dataset": "TF-Flowers, held out", "photographs": len(images), "image_size": SIDE,
        "model": VIT, "fresh": "seed 0", "near": NEAR, "chance": round(chance, 4),
        "asked": f"patches that lie more than {2 * NEAR + 1} patches from their twin",
        "twin": "share of patches whose most similar token in the mirrored photograph lies at most "
        f"{NEAR} patch from the mirrored position, sideways or up and down",
        "same_position": "the same, from the position that the patch itself has",
        "similar": "cosine of patch tokens, each at mean 0 and variance 1, less the mean of all",
        "interval": "95 %, of the mean over photographs",
    }  # fmt: skip
    sheet.write(VIT, settings, lines)
