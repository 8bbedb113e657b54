"""What a model loses without some of its heads."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.figure import Figure

from vitbook.plots.page import for_pages
from vitbook.plots.style import COLORS, finish, fitted, legend_below, named, wrapped

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

    Raises:
        ValueError: no rows, or a kind that has no colour.
    """
    kinds = {row["kind"] for row in (*by_head, *by_kind)}
    if not (by_head and by_kind) or not kinds <= LOOKS.keys():
        raise ValueError(
            f"{len(by_head)} heads and {len(by_kind)} kinds ({', '.join(sorted(kinds))}): expected "
            f"rows of the ledger, of {', '.join(LOOKS)}"
        )
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
