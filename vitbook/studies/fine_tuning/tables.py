"""What stands behind the chapter on fine-tuning and is no comparison of two kinds of run."""

from collections.abc import Sequence

from vitbook import runs
from vitbook.runs import Table
from vitbook.runs.tables import interval
from vitbook.studies.fine_tuning.checkpoints import ranked, scores_of
from vitbook.studies.fine_tuning.head_first import HEAD_RATE, mean_of
from vitbook.studies.fine_tuning.ledger import NAME, fresh, probes, told, tuned
from vitbook.studies.fine_tuning.scores import agreement

SIZES = (84, 112, 168, 224)


def all_tables() -> list[Table]:
    first = [_head_first(), _blocks(), _all_flowers(), _rates(), _sizes(), _scores(), _pairs()]
    return [*first, *_upstream(), _poster(), _growth()]


def _row(kind: str, subject: str) -> runs.Measurement:
    (found,) = runs.measurements(kind, subject)
    return found


def _head_first() -> Table:
    kept = _row("head_first", "digits")
    alone = next(row["shifted"] for row in kept.rows if row["way"] == "head alone")
    lines = [
        {
            "way": row["way"], "rate of the body": f"{row['rate']:g}" if row["rate"] else "–",
            "digits as they are": mean_of(row["as_they_are"]), "shifted": mean_of(row["shifted"]),
            "shifted, less the head alone": "–" if row["shifted"] == alone
            else str(runs.difference(row["shifted"], alone)),
            "features changed": f"{row['changed']:.2f}",
        }
        for row in kept.rows
    ]  # fmt: skip
    return Table(
        "The head first, or all at once",
        "A new head for odd or even on models that have learned the ten digits; "
        f"{kept.settings['training_images']} digits, {kept.settings['steps']} steps each, "
        f"{kept.settings['draws']} draws of digits and three bodies. The fast head and the head "
        f"alone have the rate {HEAD_RATE:g}; with the head first the body learns in half of the "
        "steps. Shifted: by a pixel to the left and to the right, which no model was tuned on. "
        "Features changed: squared, in units of their variance. "
        "Kumar et al. 2022 found that all at once is worse out of distribution, the head first "
        "better in both. Digits as they are stand at the ceiling and decide nothing.",
        lines,
    )


def _blocks() -> Table:
    kept = _row("blocks", f"{NAME}-tf_flowers")
    side = {
        weights: [row for row in kept.rows if row["weights"] == weights]
        for weights in ("learned", "fresh")
    }
    lines = [
        {
            "block": str(ours["block"]), "ridge": interval(ours["ridge"], ".1%"),
            "neighbours": interval(ours["neighbours"], ".1%"),
            "fresh weights, ridge": f"{theirs['ridge'][0]:.1%}",
        }
        for ours, theirs in zip(side["learned"], side["fresh"], strict=True)
    ]  # fmt: skip
    return Table(
        "Which block to read",
        "All 2,939 flowers of 112 pixels, frozen; 95 % intervals over the 731 held-out images. The "
        "best of twelve blocks is chosen on these images, and so flattered.",
        lines,
    )


def _all_flowers() -> Table:
    lines = [
        {"way": f"logistic regression, frozen {read}", "accuracy": interval(shares, ".1%")}
        for read, shares in probes().items()
    ]
    for way, changes in {
        "head alone, 112 px": {"train_from": "head"}, "all weights, 112 px": {},
        "all weights, 168 px": {"image_size": 168},
    }.items():  # fmt: skip
        lines.append({"way": way, "accuracy": told(tuned("fine_tuning", **changes))})
    return Table("All 2,939 flowers", "Tuned for four epochs; 731 held-out images.", lines)


def _rates() -> Table:
    lines = []
    for rate in (5e-6, 1.6e-5, 5e-5, 1.6e-4, 5e-4, 1.6e-3):
        head = {"head_learning_rate": rate} if rate > 1e-3 else {}
        lines.append({"rate of the body": f"{rate:g}",
                      "accuracy": told(tuned(learning_rate=rate, **head))})  # fmt: skip
    note = f"735 flowers of 84 pixels, four epochs. Fresh weights at 5e-4: {told(fresh())}."
    return Table("Learning rates of the pretrained model", note, lines)


def _sizes() -> Table:
    lines = []
    for size in SIZES:
        rows = tuned(**({} if size == 84 else {"image_size": size}))
        minutes = sum(row.wall_time_s for row in rows) / len(rows) / 60
        lines.append({"pixels": str(size), "accuracy": told(rows),
                      "minutes of training": f"{minutes:.0f}"})  # fmt: skip
    return Table(
        "Pixels",
        "735 flowers, four epochs, on a shared processor. Our copies have 160 pixels: 168 and 224 "
        "enlarge them. All are below the 518 pixels of pre-training.",
        lines,
    )


def _scores() -> Table:
    lines = []
    for _, row, ends in ranked():
        scores = {key: "–" if value is None else f"{value:.1%}"
                for key, value in scores_of(row).items()}  # fmt: skip
        mixes = row["ridge_projected"]
        lines.append({"start": row["model"]} | scores | {
            "ridge of 64 mixes": f"{sum(mixes) / len(mixes):.1%}", "tuned": told(ends)
        })  # fmt: skip
    return Table(
        "Starts, their scores and what came of them",
        "Scores by ten folds of the 2,939 training images, no held-out image asked. Mixes: ridge "
        "reads 64 random combinations of the features (mean of five draws), so that a wide body "
        "has no more numbers than a narrow one. Tuned for six epochs, the descendant at 42 pixels "
        "and the rate 5e-5, all others at 32 and 1e-3; no rate was searched for.",
        lines,
    )


def _pairs() -> Table:
    found = list(ranked())
    ends = [sum(row.accuracy for row in rows) / len(rows) for _, _, rows in found]
    scores = {key: [scores_of(row)[key] for _, row, _ in found] for key in scores_of(found[0][1])}
    mixes = [sum(row["ridge_projected"]) for _, row, _ in found]
    lines = []
    for name, values in (scores | {"ridge of 64 mixes": mixes}).items():
        which = agreement(values, ends)
        lines.append({"score": name, "pairs in the right order": which.words,
                      "Kendall's τ-b": f"{which.tau:.2f}"})  # fmt: skip
    return Table(
        "Pairs in the right order",
        "Of starts that have the score. Chance is half. Six starts have learned, five of them "
        "CIFAR-10, and a learned start beside a fresh one is an easy pair. Kornblith et al. 2019 "
        "report that better ImageNet models are better after tuning.",
        lines,
    )


def _upstream() -> list[Table]:
    """ImageNet's accuracy against another task's, of three sizes, where it was measured."""
    return [
        Table(
            f"Three sizes, upstream and downstream: {kept.settings['dataset']}",
            "CNNs trained on ImageNet with labels, and a fresh one as the control; "
            f"{kept.settings['training_images']:,} images, three draws. Three networks within 2.5 "
            "points upstream cannot rank much: read no order from them. Speed: of a forward pass.",
            [
                {
                    "network": row["model"],
                    "ImageNet, printed": f"{row['printed']} %" if row["printed"] else "–",
                    "frozen, ridge": _spread(row["frozen"], kept.settings["test_images"]),
                    "tuned": _spread(row["tuned"], kept.settings["test_images"]),
                    "parameters": f"{row['parameters'] / 1e6:.1f} M",
                    "multiply-adds": f"{row['macs'] / 1e6:.0f} M",
                    "speed": f"{row['speed'][0]:.2f}",
                }
                for row in kept.rows
            ],
        )
        for kept in runs.measurements("pretrained_sizes")
    ]


def _spread(shares: Sequence[float], images: int) -> str:
    return str(runs.summary([100 * share for share in shares], images))


def _poster() -> Table:
    lines: dict[str, dict[str, str]] = {}
    for row in runs.published():
        if not row["model"].endswith("(poster)") or "tun" not in row["source"]:
            continue
        line = lines.setdefault(row["model"].removesuffix(" (poster)"), {})
        before = row["quantity"] == "accuracy before fine-tuning"
        name = row.get("dataset", "images a second") + ", before" * before
        line[name] = row["printed"]
    names = list(dict.fromkeys(name for line in lines.values() for name in line))
    return Table(
        "The poster's four models",
        'Printed in its tables 4 ("before fine-tuning") and 5, on one A100. A head of zeros '
        "answers one class for all images: a tenth of CIFAR-10's test images, half a percent of "
        "Tiny-ImageNet's; .0007 is less than one class can give. ViT-B/16s is ViT-B/16 with other "
        "weights, which cannot change a speed, yet one is printed 1.6 times as fast.",
        [{"model": model} | {name: line.get(name, "–") for name in names}
         for model, line in lines.items()],
    )  # fmt: skip


def _growth() -> Table:
    sides: dict[str, dict[int, dict]] = {}
    for row in _row("costs", "image-sizes").rows:
        sides.setdefault(row["model"].removeprefix("timm:"), {})[row["image_size"]] = row
    lines = []
    for model, row in sides.items():
        more = [row[384][key] / row[256][key] for key in ("macs", "memory_bytes")]
        time = row[384]["time"][0] / row[256]["time"][0]
        lines.append({"model": model, "multiply-adds": f"{more[0]:.2f}", "time": f"{time:.1f}",
                      "memory": f"{more[1]:.2f}"})  # fmt: skip
    return Table(
        "From 256 to 384 pixels",
        "Times as much, for one image on one thread, random weights; there are 2.25 times the "
        "pixels. Attention compares all pairs of patches, so a ViT's cost grows a little faster, "
        "in multiply-adds most in the narrowest.",
        lines,
    )
