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
    return interval(values, "+.1f")


def change(row: dict) -> str:
    """The same without its interval."""
    return f"{100 * row['difference'][0]:+.1f}".replace("-", "−")


def few_bits(bits: int) -> list[Result]:
    """Digits models trained further with weights of so many bits; 0: exact ones."""
    found = runs.select(runs.read(tuned=True), experiment="few_bits")
    return [row for row in found if row.recipe["weight_bits"] == bits]


def pruned(share: float) -> list[Result]:
    """Digits models trained further of whose weights a share is zero."""
    found = runs.select(runs.read(tuned=True), experiment="pruning")
    return [row for row in found if row.recipe["pruned"] == share]


def told() -> dict[str, int | float | str]:
    """The measured numbers that the chapter quotes: names kept of 200, differences in points."""
    found: dict[str, int | float | str] = {}
    for key, asked in {
        "cnn": {"norms": "folded", "steps": "layer"}, "apart": {"norms": "apart"},
        "each": {"norms": "folded", "steps": "channel"},
        "vit": {"norms": "LayerNorm", "steps": "layer"},
        "vit-each": {"norms": "LayerNorm", "steps": "channel"},
    }.items():  # fmt: skip
        (row,) = rows("rounded_networks", layers="all", **asked)
        found[f"kept-{key}"] = round(200 * row["kept"][0])
    alone = rows("rounded_layers")
    worst = max(alone, key=lambda row: row["layer_step"])
    for key, row in {"stem": alone[0], "worst": worst, "other": alone[22]}.items():
        found |= {
            key: 100 * row["layer_step"], f"{key}-each": 100 * row["channel_step"],
            f"{key}-ratio": row["ratio"], f"{key}-ratio-apart": row["ratio_apart"],
        }  # fmt: skip
    found["usual"] = 100 * median(row["layer_step"] for row in alone)
    for row in rows("rounded_activations", bits=6):
        found[f"{row['place']}-{row['steps']}"] = change(row)
    for row in rows("rounded_activations", place="norm", steps="tensor"):
        found[f"norm-{row['bits']}"] = points(row)
    for row in rows("zero_points", bits=6):
        found[f"{row['place']}-zero"] = change(row)
    for row in rows("calibrated_weights"):
        found[f"{row['way']}-{row['bits']}"] = points(row)
    for row in rows("quantization"):
        if row["difference"]:
            found[f"{row['scheme']}-mb"] = row["megabytes"]
            found[f"{row['scheme']}-time"] = interval(row["time"], ".2f")
            found[f"{row['scheme']}-lost"] = points(row)
    return found
