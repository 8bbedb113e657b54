"""What is taken away from a model and its images, and what the chapter on it draws."""

from collections.abc import Iterable, Sequence

import matplotlib.pyplot as plt
import seaborn as sns
import torch
from jaxtyping import Bool, Float
from matplotlib.figure import Figure
from torch import Tensor

from vitbook.plots.page import for_pages
from vitbook.plots.style import COLORS, finish, fitted, legend_below, named, wrapped
from vitbook.studies.interventions.heads import ablate_heads, mean_head_outputs
from vitbook.studies.interventions.kinds import head_kinds
from vitbook.studies.interventions.quarters import make_collages
from vitbook.studies.interventions.questions import (
    energy_pointing,
    explain_collages,
    occlusion_drops,
    quarter_drops,
)

__all__ = [
    "ablate_heads",
    "ablated_heads",
    "energy_pointing",
    "explain_collages",
    "head_kinds",
    "lead_within_layers",
    "make_collages",
    "mean_head_outputs",
    "occlusion_drops",
    "quarter_drops",
]

# A colour and a shape for each kind, so that neither is needed alone.
LOOKS = {
    "idle": (COLORS[1], "X"),
    "near": (COLORS[0], "o"),
    "offset": (COLORS[2], "s"),
    "content": (COLORS[3], "^"),
    "other": ("#B0B0B0", "."),
}


@for_pages
def ablated_heads(
    by_head: Sequence[dict], by_kind: Sequence[dict], title: str, *, unit: str = "drop of the logit"
) -> Figure:
    """Above, each head gone alone; below, all heads of a kind at once, beside random ones.

    The dot of a kind below has its interval; grey ticks are the draws of random heads. A
    kind that could not be compared is left out there.

    Args:
        by_head: rows of the measurement "head_ablation" of the ledger: "layer", "head", "kind",
            and "drop" as (mean, low, high).
        by_kind: rows of the measurement "ablation": "kind", "compared", "compared_drop",
            "random_drops".
        unit: of what is lost.
    """
    figure, (above, below) = plt.subplots(
        2, 1, figsize=fitted(5.8, 5.8), layout="constrained", height_ratios=(4, 3)
    )
    heads = max(row["head"] for row in by_head)
    for row in by_head:
        color, marker = LOOKS[row["kind"]]
        place = row["layer"] + 0.7 * ((row["head"] - 0.5) / heads - 0.5)
        mean, low, high = row["drop"]
        above.plot([place, place], [low, high], color=color, linewidth=1)
        above.plot(place, mean, marker, color=color, markersize=5, label=row["kind"])
    found = named(above)
    order = [kind for kind in LOOKS if kind in found]
    legend_below(figure, {kind: found[kind] for kind in order})
    above.axhline(0, color="gray", linewidth=1, linestyle="--")
    above.set(xlabel="layer", ylabel=unit, title="one head at a time")
    layers = sorted({row["layer"] for row in by_head})
    above.set_xticks(layers[:: 1 if len(layers) < 15 else 3])
    compared = [row for row in by_kind if row["compared_drop"] is not None]
    for line, row in enumerate(compared):
        color, marker = LOOKS[row["kind"]]
        mean, low, high = row["compared_drop"]
        below.plot(
            row["random_drops"], [line + 0.2] * len(row["random_drops"]), "|", color="#707070",
            markersize=9,
        )  # fmt: skip
        below.plot([low, high], [line - 0.1] * 2, color=color, linewidth=2.5)
        below.plot(mean, line - 0.1, marker, color=color, markersize=8)
    below.set_yticks(
        range(len(compared)), [f"{len(row['compared'])} {row['kind']}" for row in compared]
    )
    below.axvline(0, color="gray", linewidth=1, linestyle="--")
    below.set(
        ylim=(len(compared) - 0.5, -0.5),
        xlabel=unit,
        title=wrapped("all at once (ticks: random heads)"),
    )
    sns.despine(figure)
    return finish(figure, title)


def lead_within_layers(
    values: Float[Tensor, "layers heads"],
    heads: Iterable[tuple[int, int]],
    *,
    relabelings: int = 10_000,
    seed: int = 0,
) -> tuple[float, float]:
    """How much larger a number is for some heads than for the others of their layers.

    A head's lead is its number less the mean of those heads of its layer that are not chosen. The
    null deals the choice out anew among the heads of each layer, as many in each (a permutation
    test): heads differ, so the spread over images says nothing of whether others would do.

    Args:
        values: a number for each head, for example the drop of a logit without it.
        heads: (layer, head), counted from 0; a layer of which all are chosen is left out.
        relabelings: how often they are dealt out.
        seed: of the dealing.

    Returns:
        The mean lead over the chosen heads, and the share of dealings with at least this lead; the
            true one counts as a dealing, so the share is never 0.

    Example:
        >>> import torch
        >>> from vitbook.studies.interventions import lead_within_layers
        >>> drops = torch.tensor([[3.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 4.0]])
        >>> lead, share = lead_within_layers(drops, [(0, 0), (1, 3)])  # the largest of each layer
        >>> lead, abs(share - 1 / 16) < 0.01
        (3.0, True)
    """
    chosen = torch.zeros(values.shape, dtype=torch.bool)
    for layer, head in heads:
        chosen[layer, head] = True
    some = chosen.any(1) & ~chosen.all(1)
    chosen, values = chosen[some], values[some].cpu().double()
    order = torch.rand(relabelings, *chosen.shape, generator=torch.Generator().manual_seed(seed))
    dealt = chosen.expand(relabelings, -1, -1).gather(2, order.argsort(2))

    def lead(of: Bool[Tensor, "dealings layers heads"]) -> Float[Tensor, "dealings"]:
        count = of.sum(2)
        others = (values * ~of).sum(2) / (values.shape[1] - count)
        return ((values * of).sum(2) - count * others).sum(1) / count.sum(1)

    own = lead(chosen[None])
    as_large = (lead(dealt) >= own - 1e-9).sum().item()  # sums in another order
    return own.item(), (as_large + 1) / (relabelings + 1)
