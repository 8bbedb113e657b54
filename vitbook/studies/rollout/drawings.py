"""The drawings of the chapter on rollout, and what its maps are compared by."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.analysis.attention.class_relevance import weighted_attention
from vitbook.plots import Diagram


def one_layer() -> Diagram:
    """What rollout makes of one layer."""
    ways = [["keeps\nthe shortcut", "→ ½ I"], ["reads\nmean of the heads", "→ ½ A"]]
    return Diagram(
        ["rollout so far", "→ n × n", ways, "add and multiply\n(½ I + ½ A) × rollout", "→ n × n",
         "rollout through this layer"],
        "One layer of rollout; the first begins with I",
    )  # fmt: skip


def with_registers() -> Diagram:
    """A model with registers: who goes in, and who comes out."""
    tokens = [["class token\nlearned"], ["4 registers\nlearned"], ["n patches\nof the image"]]
    ends = [["class token", "→ d", "head"], ["registers\ndropped"],
            ["patches", "→ n × d", "maps, masks"]]  # fmt: skip
    return Diagram(
        [tokens, "→ (5 + n) × d", "encoder\nall tokens attend to all", "→ (5 + n) × d", ends],
        "Registers take part, and are dropped at the end",
    )  # fmt: skip


def alike(
    maps: Float[Tensor, "images *grid"], others: Float[Tensor, "images *grid"]
) -> Float[Tensor, " images"]:
    """The correlation of two maps, image by image."""
    maps, others = (m.flatten(1) - m.flatten(1).mean(1, keepdim=True) for m in (maps, others))
    return (maps * others).sum(1) / (maps.norm(dim=1) * others.norm(dim=1))


def class_maps(
    model: nn.Module, image: Float[Tensor, "1 channels height width"], target: int
) -> Float[Tensor, "layers rows columns"]:
    """Relevance of the class token for a class through the first layer, the first two ..."""
    grid, prefix = model.grid_size, model.num_prefix_tokens
    given = model, image, torch.tensor([target]), 1, grid, prefix
    layers = list(next(weighted_attention(*given)).values())
    maps = []
    for count in range(1, len(layers) + 1):
        row = torch.eye(layers[0].shape[-1])[:1]
        for weighted in reversed(layers[:count]):
            row = row + row @ weighted[0]
        maps.append(row[0, prefix:].view(grid))
    return torch.stack(maps)
