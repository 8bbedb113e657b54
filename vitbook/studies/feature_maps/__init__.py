"""What the chapter on feature maps shows: channels that are cut, and what each block holds."""

from vitbook import runs
from vitbook.runs import Evidence, Table
from vitbook.runs.tables import interval
from vitbook.studies.feature_maps.blocks import directions, most_alike, token_directions
from vitbook.studies.feature_maps.drawings import channel_lines

__all__ = [
    "by_block",
    "channel_lines",
    "directions",
    "evidence",
    "most_alike",
    "silent",
    "token_directions",
]

MODELS = {
    "descendant": ("vit_small_patch14_focus-tf_flowers", "learned"),
    "fresh weights": ("vit_small_patch14_focus-tf_flowers", "fresh"),
    "learned flowers": ("tf_flowers-vit_mini_patch8_128-flowers-seed0-tf_flowers", "learned"),
}


def _rows(name: str) -> list[dict]:
    subject, weights = MODELS[name]
    (kept,) = runs.measurements("blocks", subject)
    return [row for row in kept.rows if row["weights"] == weights]


def by_block(what: str) -> dict[str, list[float | int]]:
    """Model -> a number for each of its blocks.

    Args:
        what: "directions" that hold 90 % of the variance of patch tokens; or, in % of held-out
            flowers, what a linear probe ("ridge") or 20 "neighbours" read.
    """
    if what == "directions":
        return {name: [row[what] for row in _rows(name)] for name in MODELS}
    return {name: [100 * row[what][0] for row in _rows(name)] for name in MODELS}


def less_last(name: str, what: str, block: int) -> str:
    """Points that a block reads more than the last one, with their interval over the images.

    Args:
        what: "ridge" or "neighbours".
        block: counted from 0.
    """
    return interval([100 * each for each in _rows(name)[block][f"{what}_less_last"]], "+.1f")


def silent(weights: str, photographs: int, layers: str = "last") -> float:
    """Channels of EfficientNet-Lite0 that give 0 at every position of so many flowers, in %.

    Args:
        weights: "learned" or "fresh".
        layers: "last", or "all" behind a ReLU6.
    """
    (kept,) = runs.measurements("silent_channels", "efficientnet_lite0-tf_flowers")
    asked = {"weights": weights, "layers": layers, "images": photographs}
    (row,) = (row for row in kept.rows if row.items() >= asked.items())
    return 100 * row["at_0"]


def evidence() -> Evidence:
    return Evidence((), [*(_of_blocks(name) for name in MODELS), _of_channels()])


def _of_blocks(name: str) -> Table:
    (kept,) = runs.measurements("blocks", MODELS[name][0])
    told = kept.settings
    who = f"It learned from: {told['learned_from']}"
    if name == "fresh weights":
        who = (
            "Random weights, seed 0; LayerScale begins at 0.00001, so a block adds next to nothing"
        )
    return Table(
        f"Block by block: {name}",
        f"{who}. {told['dataset']}, {told['image_size']} pixels, "
        f"{told['training_images']:,} photographs to fit, {told['test_images']} held out. "
        f"Features: {told['features']}. Ridge: {told['ridge']}. Neighbours: {told['neighbours']}. "
        f"Directions: {told['directions']}. Intervals: {told['interval']}, of the held-out images; "
        "less the last's: points more than the last block reads of the same images, as pairs.",
        [
            {
                "block": str(row["block"]), "directions": f"{row['directions']} of {row['width']}",
                "linear probe, %": interval([100 * each for each in row["ridge"]], ".1f"),
                "less the last's": less_last(name, "ridge", row["block"] - 1),
                "20 neighbours, %": interval([100 * each for each in row["neighbours"]], ".1f"),
                "less the last's, too": less_last(name, "neighbours", row["block"] - 1),
            }
            for row in _rows(name)
        ],
    )  # fmt: skip


def _of_channels() -> Table:
    (kept,) = runs.measurements("silent_channels", "efficientnet_lite0-tf_flowers")
    told = kept.settings
    return Table(
        "Channels that a ReLU6 cuts",
        f"EfficientNet-Lite0, {told['dataset']}, {told['image_size']} pixels. Counted: "
        f"{told['counted']}. Fresh weights: {told['fresh']}.",
        [
            {
                "weights": row["weights"], "layers": f"{row['layers']} ({row['channels']:,})",
                "photographs": str(row["images"]), "0 everywhere, %": f"{100 * row['at_0']:.1f}",
                "6 everywhere, %": f"{100 * row['at_6']:.1f}",
            }
            for row in kept.rows
        ],
    )  # fmt: skip
