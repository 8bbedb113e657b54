"""Recipes and architectures on CIFAR-10 side by side: the poster's, others' and ours."""

from functools import cache
from statistics import mean

from vitbook import runs
from vitbook.runs import Result
from vitbook.studies.small_data_benchmark.poster import AUTHORS, BODIES, costs, printed
from vitbook.training import AtScale

VIT = "vit_mini_patch4_32"
MINIS = {"Rot-ViT": "rot_vit_mini_patch4_32", "SL-ViT": "sl_vit_mini_patch4_32",
         "ResNet-20": "resnet20"}  # fmt: skip
OVERLAP = {"T2T-ViT": "t2t_vit_mini_patch4_32", "hybrid": "vit_mini_r8_s4_32"}
COMPARED = ("ViT-Ti", "Rot-ViT", "SL-ViT", "T2T-ViT", "ResNet-56")
KINDS = {"ViT-Ti": "plain ViT", "ResNet-56": "ResNet"}  # whose bodies the columns do not share
OURS = {"ViT-Ti": "ViT", "ResNet-56": "ResNet-20"}  # the roles of our runs of these kinds


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


def _authors() -> dict[str, float]:
    """Model -> accuracy on CIFAR-10 after the 300 epochs of SL-ViT's authors."""
    rows = {row["model"]: row["value"] for row in runs.published(quantity="accuracy")
            if "Lee" in row["source"] and row["dataset"] == "CIFAR-10"}  # fmt: skip
    return {name: rows[model] for name, model in AUTHORS.items() if model in rows}


def beside(found: AtScale) -> list[dict[str, str]]:
    """Accuracy on CIFAR-10 in percent: the poster's, SL-ViT's authors', and ours."""
    ours = f"{found.rows('ViT')[0].data_passes:.0f} epochs, mini"
    authors = _authors()
    return [
        {"": KINDS.get(name, name), "poster": _percent(printed(name, "CIFAR-10")),
         "300 epochs": _percent(authors.get(name)),
         ours: f"{found.accuracy(OURS.get(name, name)).mean:.1f}"}
        for name in COMPARED
    ]  # fmt: skip


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}"


def curves() -> dict[str, list[tuple[int, float]]]:
    """Name -> (epochs, accuracy) on CIFAR-10, of one body by SL-ViT's recipe: 20, maybe 300."""
    long, found = _authors(), {}
    for name in COMPARED:
        if rows := bodies(BODIES.get(name, "")):
            found[name] = [(20, 100 * mean(row.accuracy for row in rows))]
            found[name] += [(300, 100 * long[name])] if name in long else []
    return found


def frontier(found: AtScale) -> list[dict]:
    """The mini models on CIFAR-10, as :func:`vitbook.figures.frontier` asks."""
    by, lines = costs(), []
    kinds = {"ViT": "plain", "ResNet-20": "convolution", "hybrid": "convolution"}
    for name in ("ViT", *MINIS, *OVERLAP):
        cost = by[found.rows(name)[0].model, "forward"]
        lines.append({
            "name": name, "family": kinds.get(name, "rotated, shifted or overlapping"),
            "accuracy": found.accuracy(name).mean / 100, "parameters": cost["parameters"],
            "macs": cost["macs_per_image"], "time": 1 / cost["images_per_second"],
        })  # fmt: skip
    return lines
