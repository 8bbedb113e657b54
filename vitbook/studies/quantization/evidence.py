"""What the chapter claims and measured: its evidence page."""

from statistics import mean

from vitbook import runs
from vitbook.runs import Claim, Evidence, Table
from vitbook.runs.tables import interval
from vitbook.studies.quantization.kept import few_bits, points, pruned, rows


def evidence() -> Evidence:
    exact = few_bits(0)
    claims = [
        Claim(
            "Two bits, learned",
            "Twenty epochs with 2-bit weights end below twenty epochs with exact weights.",
            ("exact", "2 bits"), exact, few_bits(2),
            note="All go on from one checkpoint. A grid of 2 bits has three codes. The real ViT "
            "has not learned with rounded weights.",
        ),
        Claim(
            "Nine tenths zero",
            "Twenty epochs without nine tenths of the weights end below twenty with all.",
            ("all weights", "a tenth"), exact, pruned(0.9),
            reported="Nine of ten weights can go without loss, if the rest is trained on (Han et "
            "al. 2015, convolutional networks).",
        ),
    ]  # fmt: skip
    tables = (_networks, _layers, _activations, _weights, _schemes, _oscillations, _zeros)
    return Evidence(claims, [make() for make in tables])


def _shares(row: dict, name: str) -> str:
    return interval([100 * each for each in row[name]], ".1f")


def _networks() -> Table:
    (kept,) = runs.measurements("rounded_networks")
    told = kept.settings
    return Table(
        "Two networks, 8 bits",
        f"{told['dataset']}, {told['images']} held-out photographs. Names: {told['names']}. "
        f"Kept: {told['kept']}. Moved: {told['moved']}.",
        [
            {
                "model": row["model"], "norms": row["norms"], "a step for each": row["steps"],
                "layers rounded": row["layers"], "names kept, %": _shares(row, "kept"),
                "logits moved, %": f"{100 * row['moved']:.1f}",
            }
            for row in kept.rows
        ],
    )  # fmt: skip


def _layers() -> Table:
    (kept,) = runs.measurements("rounded_layers")
    told = kept.settings
    return Table(
        "EfficientNet-Lite0, one layer at a time",
        f"{told['rounded'].capitalize()}, to {told['bits']} bits; {told['images']}. Ratio: largest "
        "row of the weight over the median row, before and after its batch norm is folded. "
        f"Moved: {told['moved']}.",
        [
            {
                "layer": f"{row['layer']} ({row['kind']})",
                "ratio, apart": f"{row['ratio_apart']:.1f}", "folded": f"{row['ratio']:.1f}",
                "moved, a step a layer, %": f"{100 * row['layer_step']:.1f}",
                "a step a channel, %": f"{100 * row['channel_step']:.1f}",
            }
            for row in kept.rows
        ],
    )  # fmt: skip


WHERE = {
    "stream": "residual stream", "norm": "what norms give", "softmax": "attention weights",
    "gelu": "inside the MLP",
}  # fmt: skip


def _activations() -> Table:
    (kept,) = runs.measurements("rounded_activations")
    told = kept.settings

    def line(row: dict, grid: str) -> dict[str, str]:
        return {
            "rounded": WHERE[row["place"]], "bits": str(row["bits"]), "a step for each": grid,
            "difference in points": points(row),
        }  # fmt: skip

    lines = [line(row, row["steps"]) for row in kept.rows]
    lines += [line(row, "tensor, with a zero point") for row in rows("zero_points")]
    return Table(
        "Activations rounded, one place at a time",
        f"{_task(told)} Weights stay exact. Grids are found in each batch of these images; steps "
        "fixed beforehand were not run. For attention weights a token is a query and a channel a "
        "key.",
        lines,
    )


def _task(told: dict) -> str:
    return (
        f"The pretrained ViT with a linear head on its last block, {told['dataset']}, "
        f"{told['images']} held-out images at {told['image_size']} px; {told['interval']}."
    )


def _weights() -> Table:
    (kept,) = runs.measurements("calibrated_weights")
    return Table(
        "Weights in few bits, rounded in four ways",
        f"{_task(kept.settings)} A step for each row. Nearest: the grid ends at the largest "
        "weight. Clipped: it ends where the squared error of the row is least. By outputs: a code "
        "is chosen for what the layer answers (Frantar et al. 2023), by "
        f"{kept.settings['calibration']}. 5 to 7 bits were not run.",
        [
            {
                "bits": str(row["bits"]), "way": row["way"],
                "accuracy, %": _shares(row, "accuracy"), "difference in points": points(row),
            }
            for row in kept.rows
        ],
    )  # fmt: skip


def _schemes() -> Table:
    (kept,) = runs.measurements("quantization", "vit_small_patch14_focus-tiny_imagenet")
    told = kept.settings
    return Table(
        "What torchao's schemes cost and save",
        f"{_task(told)} Time: {told['time']}, {kept.device}. Bytes are counted: codes packed "
        "tightly, four bytes a step. Dynamic: inputs are rounded too, a step a token, and the "
        "product is of whole numbers.",
        [
            {
                "scheme": row["scheme"], "MB": f"{row['megabytes']:.1f}",
                "difference in points": points(row) if row["difference"] else "refused here",
                "time": interval(row["time"], ".2f") if row["time"] else "",
            }
            for row in kept.rows
        ],
    )  # fmt: skip


def _oscillations() -> Table:
    (kept,) = runs.measurements("oscillations")
    return Table(
        "Codes that turn to and fro",
        f"The digits model trained further for {kept.rows[0]['steps']} steps, one seed. Counted: "
        f"{kept.settings['counted']} (Nagel et al. 2022), for which one turn in the last 69 steps "
        "is enough. Control: it learns with exact weights, and the codes are counted that they "
        "would have.",
        [
            {
                "bits": str(row["bits"]), "learns with": f"{row['weights']} weights",
                "oscillate, %": f"{100 * row['share']:.1f}",
            }
            for row in kept.rows
        ],
    )  # fmt: skip


def _zeros() -> Table:
    def line(share: float) -> dict[str, str]:
        found = [100 * row.accuracy for row in pruned(share)]
        told = f"{mean(found):.1f} ({min(found):.1f} to {max(found):.1f})"
        return {"weights that are zero, %": f"{100 * share:.0f}", "accuracy, %": told}

    return Table(
        "Zeros",
        "The digits model, its smallest weights set to zero, trained for twenty more epochs: mean "
        "and range of three seeds.",
        [line(share) for share in (0.5, 0.75, 0.9, 0.95, 0.98)],
    )
