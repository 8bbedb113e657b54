"""The rows behind the chapter, and the numbers of them that it quotes."""

from statistics import median

from vitbook import runs
from vitbook.runs import Result
from vitbook.runs.tables import interval


def rows(kind: str, **wanted: object) -> list[dict]:
    """Rows of a measurement of this chapter, those whose fields are these."""
    (kept,) = runs.measurements(kind)
    return [row for row in kept.rows if row.items() >= wanted.items()]


def points(row: dict) -> str:
    """The difference to the exact model in points, with its interval."""
    values = [100 * value for value in row["difference"]]
    return interval(values, "+.1f").replace("-", "−")


def few_bits(bits: int) -> list[Result]:
    """Digits models trained further with weights of so many bits; 0: exact ones."""
    found = runs.select(runs.read(tuned=True), experiment="few_bits")
    return [row for row in found if row.recipe["weight_bits"] == bits]


def pruned(share: float) -> list[Result]:
    """Digits models trained further of whose weights a share is zero."""
    found = runs.select(runs.read(tuned=True), experiment="pruning")
    return [row for row in found if row.recipe["pruned"] == share]


def told() -> dict[str, float | str]:
    """The measured numbers that the chapter quotes: shares in %, differences in points."""
    found: dict[str, float | str] = {}
    for key, asked in {
        "cnn": {"norms": "folded", "steps": "layer"}, "apart": {"norms": "apart"},
        "each": {"norms": "folded", "steps": "channel"},
        "vit": {"norms": "LayerNorm", "steps": "layer"},
        "vit-each": {"norms": "LayerNorm", "steps": "channel"},
    }.items():  # fmt: skip
        (row,) = rows("rounded_networks", layers="all", **asked)
        found[f"kept-{key}"] = 100 * row["kept"][0]
    for layers in ("depthwise", "all but the depthwise"):
        (row,) = rows("rounded_networks", layers=layers)
        found[f"kept-{layers}"] = 100 * row["kept"][0]
    alone = rows("rounded_layers")
    worst = max(alone, key=lambda row: row["layer_step"])
    found |= {
        "worst": 100 * worst["layer_step"],
        "usual": 100 * median(row["layer_step"] for row in alone),
        "ratio": worst["ratio"], "ratio-apart": worst["ratio_apart"],
    }  # fmt: skip
    for place, steps in (("stream", "channel"), ("gelu", "token"), ("softmax", "token")):
        for key, step in (("one", "tensor"), ("other", steps)):
            (row,) = rows("rounded_activations", place=place, steps=step, bits=6)
            found[f"{place}-{key}"] = points(row)
    for row in rows("zero_points", bits=6):
        found[f"{row['place']}-zero"] = points(row)
    for row in rows("calibrated_weights"):
        found[f"{row['way']}-{row['bits']}"] = points(row)
    for row in rows("quantization"):
        if row["difference"]:
            found[f"{row['scheme']}-mb"] = row["megabytes"]
            found[f"{row['scheme']}-time"] = interval(row["time"], ".2f")
            found[f"{row['scheme']}-lost"] = points(row)
    for weights in ("rounded", "exact"):
        (row,) = rows("oscillations", weights=weights)
        found[f"turning-{weights}"] = 100 * row["share"]
    return found
