"""What the chapter on positions draws."""

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

import vitbook
from vitbook.layers import SinusoidPosition, SinusoidPosition2D
from vitbook.plots import Diagram
from vitbook.training import AtScale

Map = Float[Tensor, "64 64"]


def entries() -> Diagram:
    """Where positions enter a model whose tokens are 64 pixels."""
    turned = Diagram(["turn"], "rotary")
    return Diagram([
        "tokens", "→ 64 × 64", Diagram(["+ a vector"], "table or sinusoid"),
        [["queries", turned], ["keys", turned]], "→ 64 × 16", "products",
        Diagram(["+ terms"], "relative"), "→ softmax",
    ])  # fmt: skip


def sinusoids() -> dict[str, Map]:
    """Sinusoids of an 8 x 8 grid, and products of every two positions; those of 2-D as tiles."""
    found = {}
    for name, kind in (("1-D", SinusoidPosition), ("2-D", SinusoidPosition2D)):
        table = kind((8, 8), width=64, num_prefix_tokens=0).table
        found[f"{name}, sinusoids"], found[f"{name}, products"] = table, table @ table.T / 32
    return found | {"2-D, products": _tiles(found["2-D, products"])}


def similarities(found: AtScale) -> dict[str, Map]:
    """Map of every two positions of a learned table, and a control that knows distances.

    The table is always of photographs: where ``found`` has digits, that of a model of the book.
    """
    if found.scale == "page":
        model = vitbook.load_checkpoint("cifar10-vit_mini_patch4_32-quick-seed0").model
    else:
        model = found.model("1-D table")
    rows = F.normalize(model.position.table[1:].detach().cpu(), dim=1)
    grid = torch.cartesian_prod(torch.arange(8.0), torch.arange(8.0))
    bell = torch.exp(-(torch.cdist(grid, grid) ** 2) / (2 * 1.6**2))
    return {"learned on CIFAR-10": rows @ rows.T, "a bell curve, nothing learned": bell}


def tiles(maps: dict[str, Map]) -> dict[str, Map]:
    """Each row of a map as a tile, which stands where its position is."""
    return {f"{name}, in tiles": _tiles(each) for name, each in maps.items()}


def _tiles(cosines: Map) -> Map:
    return rearrange(cosines, "(r c) (y x) -> (r y) (c x)", r=8, y=8)
