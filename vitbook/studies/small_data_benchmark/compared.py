"""Recipes and architectures on CIFAR-10 side by side: the poster's, others' and ours."""

from functools import cache
from statistics import mean

from vitbook import runs
from vitbook.runs import Result
from vitbook.studies.small_data_benchmark.poster import AUTHORS, BODIES, costs, printed

VIT = "vit_mini_patch4_32"
MINIS = {"Rot-ViT": "rot_vit_mini_patch4_32", "SL-ViT": "sl_vit_mini_patch4_32",
         "ResNet-20": "resnet20"}  # fmt: skip
OVERLAP = {"T2T-ViT": "t2t_vit_mini_patch4_32", "hybrid": "vit_mini_r8_s4_32"}
COMPARED = ("ViT-Ti", "Rot-ViT", "SL-ViT", "T2T-ViT", "ResNet-56")
KINDS = {"ViT-Ti": "plain ViT", "ResNet-56": "ResNet"}  # whose bodies the columns do not share


@cache  # asked for some forty times
def ledger() -> list[Result]:
    """All rows."""
    return runs.read_all()


def mini_runs(model: str, epochs: int) -> list[Result]:
    """All runs of a mini model over all of CIFAR-10, without a teacher: 5 epochs or 10."""
    experiment = {5: "data_size", 10: "poster"}[epochs]
    return runs.select(ledger(), experiment=experiment, model=model, share=1.0)


def bodies(model: str) -> list[Result]:
    """The run of a body of the poster's size: 20 epochs of CIFAR-10, by SL-ViT's recipe."""
    return runs.select(ledger(), experiment="small_body", model=model)


def _columns() -> dict[str, dict[str, float]]:
    """Column -> model -> accuracy on CIFAR-10 in percent."""
    minis = {"ViT-Ti": VIT, "ResNet-56": MINIS["ResNet-20"]} | MINIS | OVERLAP
    authors = {row["model"]: row["value"] for row in runs.published(quantity="accuracy")
               if "Lee" in row["source"] and row["dataset"] == "CIFAR-10"}  # fmt: skip
    found = {
        "poster": {name: printed(name, "CIFAR-10") for name in COMPARED},
        "300 epochs": {name: authors.get(AUTHORS.get(name)) for name in COMPARED},
        "10 epochs, mini": {name: _share(mini_runs(minis[name], 10)) for name in COMPARED},
    }
    return {
        column: {name: 100 * share for name, share in shares.items() if share is not None}
        for column, shares in found.items()
    }


def _share(rows: list[Result]) -> float | None:
    return mean(row.accuracy for row in rows) if rows else None


def beside() -> list[dict[str, str]]:
    """Accuracy on CIFAR-10 in percent: the poster's, SL-ViT's authors', and ours."""
    return [
        {"": KINDS.get(name, name)}
        | {
            column: f"{shares[name]:.1f}" if name in shares else "–"
            for column, shares in _columns().items()
        }
        for name in COMPARED
    ]


def curves() -> dict[str, list[tuple[int, float]]]:
    """Name -> (epochs, accuracy) on CIFAR-10, of one body by SL-ViT's recipe: 20, maybe 300."""
    long = _columns()["300 epochs"]
    short = {name: rows for name in COMPARED if (rows := bodies(BODIES.get(name, "")))}
    return {
        name: [(20, 100 * _share(rows)), *((300, long[each]) for each in (name,) if each in long)]
        for name, rows in short.items()
    }


def frontier() -> list[dict]:
    """Mini models after five epochs over CIFAR-10, as :func:`vitbook.figures.frontier` asks."""
    by, lines = costs(), []
    kinds = {"ViT": "plain", "ResNet-20": "convolution", "hybrid": "convolution"}
    for name, model in ({"ViT": VIT} | MINIS | {"hybrid": OVERLAP["hybrid"]}).items():
        accuracies = [row.accuracy for row in mini_runs(model, 5)]
        cost = by[model, "forward"]
        lines.append({
            "name": name, "family": kinds.get(name, "rotated or shifted"),
            "accuracy": sum(accuracies) / len(accuracies), "parameters": cost["parameters"],
            "macs": cost["macs_per_image"], "time": 1 / cost["images_per_second"],
        })  # fmt: skip
    return lines
