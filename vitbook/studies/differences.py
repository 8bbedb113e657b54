"""What the chapter on differences draws, and what a poster prints."""

from collections.abc import Mapping, Sequence
from functools import cache
from statistics import mean

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.figure import Figure

from vitbook import runs
from vitbook.plots.page import for_pages
from vitbook.plots.style import COLORS, finish, fitted, wrapped
from vitbook.runs import Evidence, Table, get_recipe
from vitbook.runs.statistics import gap_luck

# The test images: the flowers' are recovered in the chapter from printed percentages.
TESTED = {"TF-Flowers": 367, "CIFAR-10": 10_000, "CIFAR-100": 10_000, "Tiny-ImageNet": 10_000}
FLOWERS_TUNED = 512  # of the fine-tuned models, recovered likewise
MODELS = ("ViT-Ti", "Rot-ViT", "SL-ViT", "ResNet-56", "DeiT-Ti")
TUNED = ("ViT-B/16", "R50+ViT-B/16", "ViT-B/16s", "ViT-B/32")
DESIGNS = {
    "deep and narrow": "vit_dn_equal", "shallow and wide": "vit_sw_equal", "SE": "vit_se",
    "ResNeXt": "vit_resnext", "Ghost": "vit_ghost_equal", "Dense": "vit_dense",
}  # fmt: skip


def printed(model: str, dataset: str) -> float | None:
    """An accuracy of the poster, a share."""
    return runs.printed(f"{model} (poster)", dataset)


@cache  # a reading of the ledger each
def of_seeds(body: str, digits: int = 143, steps: int = 440) -> list[float]:
    """Accuracies in percent, one for each seed from 0: 143 digits or 1,442, 440 steps or 1,320."""
    model = f"{body}_micro_patch2_8"
    if (digits, steps) == (1442, 1320):
        rows = runs.select(runs.read(dataset="digits", recipe=get_recipe("digits")), model=model)
    else:
        experiment = "few_digits" if steps == 440 else "few_digits_long"
        if (body, digits) == ("vit", 1442):
            experiment = "scaling_digits"
        share = 0.1 if digits == 143 else 1.0
        rows = runs.select(runs.read_all(), experiment=experiment, model=model, share=share)
    return [100 * row.accuracy for row in sorted(rows, key=lambda row: row.seed)]


@for_pages
def seed_dots(kinds: Mapping[str, Sequence[float]], title: str) -> Figure:
    """A row of dots for each name, one dot a run, and a bar at their mean.

    Args:
        kinds: name -> accuracies in percent.
    """
    figure, axis = plt.subplots(figsize=fitted(6.2, 0.75 * len(kinds) + 0.9), layout="constrained")
    for line, (scores, color) in enumerate(zip(kinds.values(), COLORS, strict=False)):
        axis.plot(scores, [line] * len(scores), "o", color=color, alpha=0.7, markersize=8)
        axis.plot([mean(scores)] * 2, [line - 0.3, line + 0.3], color=color, linewidth=2.5)
    axis.set_yticks(range(len(kinds)), [wrapped(name, 1.5) for name in kinds])
    axis.set(xlabel="accuracy, %", ylim=(len(kinds) - 0.5, -0.5))
    sns.despine(figure)
    return finish(figure, title)


def _apart(model: str, other: str, dataset: str, images: int) -> str:
    shares = [100 * printed(each, dataset) for each in (model, other)]
    gap = shares[0] - shares[1]
    return f"{gap:+.1f}, ±{gap_luck(shares, images):.1f} by its test images".replace("-", "−")


def evidence() -> Evidence:
    """No claims of its own: the chapter links those of the chapters that follow."""
    gaps = [
        {"less ViT-Ti": model}
        | {name: _apart(model, MODELS[0], name, images) for name, images in TESTED.items()}
        for model in MODELS[1:4]
    ]
    tested = TESTED | {"TF-Flowers": FLOWERS_TUNED}
    tuned = [
        {"data set": name, "ViT-B/16s less ViT-B/16": _apart("ViT-B/16s", "ViT-B/16", name, images)}
        for name, images in tested.items()
    ]
    tables = (
        Table("The poster's differences", "In points. 367 test images of TF-Flowers, as recovered "
              "in the chapter, and 10,000 of the others.", gaps),
        Table("Weights from SAM, fine-tuned", "ViT-B/16s is ViT-B/16 with weights from SAM. "
              f"{FLOWERS_TUNED} test images of TF-Flowers fit these accuracies.", tuned),
    )  # fmt: skip
    return Evidence((), tables)
