"""What papers print of models, images and computation, and what their numbers say."""

from itertools import pairwise
from math import exp, log, log2

from vitbook import runs
from vitbook.runs import Table

Number = int | float
Point = tuple[Number, Number]
MILLIONS = {"ImageNet": 1.3, "ImageNet-21k": 14, "JFT-300M": 303}  # images
FINAL, FIRST = "final version, table 2", "first version, results"
TASKS = ("ImageNet", "ImageNet ReaL", "CIFAR-10", "CIFAR-100", "Oxford-IIIT Pets",
         "Oxford Flowers-102", "VTAB")  # fmt: skip
BIT, LARGE = ("BiT-L (ResNet152x4)", "JFT-300M"), ("ViT-L/16", "JFT-300M")
PRINTINGS = {
    "first version": "first version, comp",
    "authors' page, 2021-02": "February",
    "final version": "final version, comp",
    "authors' page": "yitu-opensource/T2T-ViT",
}


def _vit_paper(where: str, quantity: str = "accuracy") -> list[dict]:
    rows = runs.published(quantity=quantity)
    return [
        row for row in rows if row["source"].startswith("Dosovitskiy") and where in row["source"]
    ]


def by_images() -> dict[str, dict[str, list[Point]]]:
    """Patch size -> model -> (million images of the pre-training, accuracy on ImageNet in %)."""
    found: dict = {}
    for row in _vit_paper("table 5 "):
        model, patch = row["model"].split("/")
        if row["dataset"] == "ImageNet" and model != "ViT-H":
            panel = found.setdefault(f"patches of {patch} px", {})
            point = MILLIONS[row["pretrained_on"]], 100 * row["value"]
            panel.setdefault(model, []).append(point)
    return found


def by_compute() -> dict[str, list[Point]]:
    """Family -> (exaFLOPs of the pre-training on JFT, accuracy on ImageNet in %)."""
    found: dict = {"ViT": [], "hybrid": [], "ResNet": []}
    for model, cost, row in _table_6():
        found[_family(model)].append((cost, 100 * row["value"]))
    return {family: sorted(points) for family, points in found.items()}


def _table_6() -> list[tuple[str, Number, dict]]:
    """Model, exaFLOPs and its accuracy on ImageNet; of a model there may be two lengths."""
    costs = {
        (row["model"], row["epochs"]): row["value"] for row in _vit_paper("table 6 ", "exaFLOPs")
    }
    rows = [row for row in _vit_paper("table 6 ") if row["dataset"] == "ImageNet"]
    return [(row["model"], costs[row["model"], row["epochs"]], row) for row in rows]


def _family(model: str) -> str:
    return "hybrid" if "+" in model else "ViT" if "ViT" in model else "ResNet"


def compute_for(accuracy: Number, family: str) -> float | None:
    """ExaFLOPs at which a family's line crosses an accuracy in %; None if it begins above it."""
    best = _rising(by_compute()[family])
    for (low, below), (high, above) in pairwise(best):
        if below <= accuracy <= above:
            share = (accuracy - below) / (above - below)
            return exp(log(low) + share * log(high / low))
    return None


def a_doubling(family: str) -> list[tuple[Number, Number, float, float]]:
    """ExaFLOPs from and to; what a doubling brings on the way: points, and its share of errors."""
    best = _rising(by_compute()[family])
    return [
        (
            low,
            high,
            (above - below) / log2(high / low),
            1 - ((100 - above) / (100 - below)) ** (1 / log2(high / low)),
        )
        for (low, below), (high, above) in pairwise(best)
    ]


def _rising(points: list[Point]) -> list[Point]:
    """Those that are above all that cost less."""
    return [(x, y) for x, y in points if all(other < y for cost, other in points if cost < x)]


def tables() -> tuple[Table, ...]:
    return _results(), _versions(), _table_5(), _scaling(), _doublings(), _t2t()


def _cells(version: str) -> dict[tuple[str, str | None], dict[str, dict]]:
    found: dict = {}
    for row in _vit_paper(version):
        key = row["model"], row.get("pretrained_on")
        found.setdefault(key, {})[row["dataset"]] = row
    return found


def _results() -> Table:
    cells = _cells(FINAL)
    days = {
        (row["model"], row.get("pretrained_on")): row["printed"]
        for row in runs.published(quantity="core-days")
    }
    lead = "ViT-L/16 less BiT-L"
    lines = [
        {"test": task}
        | {_called(*key): found[task]["printed"] if task in found else "–"
           for key, found in cells.items()}
        | {lead: _signed(gap)}
        for task, gap in lead_over_bit().items()
    ]  # fmt: skip
    lines.append({"test": "TPUv3-core-days"} | {_called(*key): days[key] for key in cells}
                 | {lead: "–"})  # fmt: skip
    return Table(
        "The ViT paper's result table, whole",
        "Table 2 of the final version: accuracy in percent, after fine-tuning; ± is the deviation "
        "of three fine-tunings. The paper says that ViT-L/16 beats BiT-L, pre-trained on the same "
        "data, on all tasks. By its own numbers (last column) it does on five of seven: on ReaL "
        "the two are equal, and on VTAB ViT-L/16 is 0.01 below, where BiT-L's deviation is 1.70. "
        "Noisy Student has two numbers in one cell: 88.4 is its authors', 88.5 is Touvron et al. "
        "2020's, who tuned it further.",
        lines,
    )


def _called(model: str, data: str | None) -> str:
    return model.partition(" (")[0] + (f", {data}" if data else "")


def _signed(gap: Number) -> str:
    return f"{100 * gap:+.2f}".replace("-", "−") if gap else "0.00"


def lead_over_bit() -> dict[str, Number]:
    """Task -> accuracy of ViT-L/16 less that of BiT-L, in the final version."""
    cells = _cells(FINAL)
    return {
        task: round(cells[LARGE][task]["value"] - cells[BIT][task]["value"], 6) for task in TASKS
    }


def _versions() -> Table:
    first, final = _cells(FIRST), _cells(FINAL)
    lines = [
        {"model": model, "pre-trained on": data or "–", "test": task,
         "2020": row["printed"], "2021": final[model, data][task]["printed"]}
        for (model, data), found in first.items()
        for task, row in found.items()
        if row["printed"] != final[model, data][task]["printed"]
    ]  # fmt: skip
    return Table(
        "Cells that changed between the two versions",
        "The rows of ImageNet-21k are new in 2021. The first version says TPUv3-days, the final "
        "one core-days; the numbers stayed, but a chip has two cores. In the first version, too, "
        "ViT-L/16 is below BiT-L on ReaL and on VTAB.",
        lines,
    )


def _table_5() -> Table:
    rows = [row for row in _vit_paper("table 5 ") if row["dataset"] == "ImageNet"]
    printed = {(row["model"], row["pretrained_on"]): row["printed"] for row in rows}
    lines = [
        {"model": model}
        | {f"{data}, {MILLIONS[data]:g} M": printed.get((model, data), "–") for data in MILLIONS}
        for model in dict.fromkeys(row["model"] for row in rows)
    ]
    return Table(
        "Accuracy by the size of the pre-training set",
        "Table 5: on ImageNet, in percent, fine-tuned at 384 px. Table 6 has the same models on "
        "JFT-300M with their epochs: 7 for ViT-B/16, ViT-B/32 and ViT-L/32, 14 for the ViT-L/16 "
        "and the ViT-H/14 that stand here. It prints 88.08 for ViT-H/14, and does not say why.",
        lines,
    )


def _scaling() -> Table:
    lines = [
        {"family": _family(model), "model": model, "epochs": str(row["epochs"]),
         "exaFLOPs": f"{cost:,.0f}", "ImageNet": row["printed"]}
        for model, cost, row in sorted(_table_6(), key=lambda each: each[1])
    ]  # fmt: skip
    return Table(
        "Accuracy by the computation of the pre-training",
        "Table 6: all pre-trained on JFT-300M and fine-tuned on ImageNet, one run each. Of five "
        "data sets together the paper says that ViTs take two to four times less computation.",
        lines,
    )


def _doublings() -> Table:
    lines = []
    for family in by_compute():
        for low, high, gain, fall in a_doubling(family):
            lines.append({
                "family": family, "exaFLOPs": f"{low:,.0f} to {high:,.0f}",
                "points a doubling": f"{gain:.1f}", "errors fewer a doubling": f"{fall:.0%}",
            })  # fmt: skip
    return Table(
        "Do they saturate?",
        "From the table before: a line for each pair of neighbours, without models that a cheaper "
        "one of their family beats. The paper writes that ViTs appear not to saturate within the "
        "range tried. The ViTs still gain at the end: in points a third as much a doubling as at "
        "the start; in errors half as much, and from the second pair on alike. The ResNets gain "
        "at their end as well, over fewer exaFLOPs. Size and epochs change together along the "
        "lines.",
        lines,
    )


def _t2t() -> Table:
    lines = []
    for size in ("7", "10", "12", "14", "t_14", "19", "t_19", "24", "t_24"):
        rows = runs.published(quantity="accuracy", model=f"t2t_vit_{size}", dataset="ImageNet")
        rows = [row for row in rows if "image_size" not in row]
        lines.append({"model": f"`t2t_vit_{size}`"} | {
            name: next((row["printed"] for row in rows if words in row["source"]
                        and ("February" in row["source"]) == (words == "February")), "–")
            for name, words in PRINTINGS.items()
        })  # fmt: skip
    return Table(
        "One paper, four printings",
        "T2T-ViT's accuracies on ImageNet rose from printing to printing. A number that is quoted "
        "needs its version.",
        lines,
    )
