"""What the chapter on self-supervision claims of trained runs, and what stands behind the rest."""

from collections.abc import Sequence
from dataclasses import replace

from vitbook import runs
from vitbook.runs import Claim, Evidence, Result, Table
from vitbook.studies.self_supervision.measured import (
    BODY,
    SHOTS,
    TASKS,
    TRACED,
    first_images,
    learned,
    read_all_bodies,
)
from vitbook.training import AtScale

__all__ = ["curves", "evidence", "few", "first_images", "learned", "traces", "worth"]

STEPS = (
    "The first side took 1,320 steps on all digits without labels, and 120 with the 143 labels: "
    "1,440 in all, of which the ledger counts the last 120"
)
UNLABELED = "1,320 steps without labels stand before the 120 steps of the first side"
SHORT = {"epochs": 10, "warmup_epochs": 1.0}
UNCHANGED = {"shift": 0.0, "rotation": 0.0, "zoom": 0.0}
DIGITS = "Digits of 8 x 8 pixels neither confirm nor refute a result on ImageNet."


def few() -> dict[str, list[Result]]:
    """Runs with 143 labels by where they started, and how long the fresh ones took."""
    rows = runs.read(tuned=True, few=True, unlabeled=True, dataset="digits")
    rows = [row for row in rows if row.share < 1]
    names = {row.name: task for task, key in TASKS.items() for row in learned(key)}
    found: dict[str, list[Result]] = {}
    for row in rows:
        if not row.experiment.startswith("self_supervision"):
            continue
        start = row.start.partition("@")[0]
        kind = names.get(start) or ("all labels" if start.startswith("digits-") else "")
        if not start:
            kind = f"fresh, {row.recipe['epochs']} epochs"
        if kind:  # each seed starts from a body of its own: what they share is its task
            found.setdefault(kind, []).append(replace(row, start=start and kind))
    return found


def worth(at: AtScale | None = None) -> dict[str, list[dict]]:
    """Body -> what was measured of each seed; measured now of bodies that are the reader's own."""
    if at is not None and at.scale != "page":
        return read_all_bodies(at)
    (seen,) = runs.measurements("worth")
    found: dict[str, list[dict]] = {}
    for row in seen.rows:
        found.setdefault(row["body"], []).append(row)
    return found


def curves(
    worths: dict[str, list[dict]], readout: str = "ridge"
) -> dict[str, list[tuple[float, ...]]]:
    """Body -> images of each class, mean accuracy in %, lowest and highest of the seeds.

    Args:
        worths: of :func:`worth`.
        readout: "ridge" of the mean token, or "ridge_flat" of the tokens side by side.
    """
    return {
        name: [_point(shots, [100 * row[readout][i] for row in rows])
               for i, shots in enumerate(SHOTS)]
        for name, rows in worths.items()
    }  # fmt: skip


def traces(quantity: str) -> dict[str, list[tuple[float | int, ...]]]:
    """Way -> step, mean of the loss or of the spread, lowest and highest of the seeds."""
    (seen,) = runs.measurements("collapse")
    ways: dict[str, list[list[float]]] = {}
    for row in seen.rows:
        ways.setdefault(row["way"], []).append(row[quantity])
    return {
        way: [_point(*each) for each in zip(TRACED, zip(*seeds, strict=True), strict=True)]
        for way, seeds in ways.items()
    }  # fmt: skip


def _point(x: int, seeds: Sequence[float]) -> tuple[float | int, ...]:
    return x, sum(seeds) / len(seeds), min(seeds), max(seeds)


def evidence() -> Evidence:
    starts = few()
    long = starts["fresh, 600 epochs"]
    claims = [
        Claim(
            f"{task[0].upper()}{task[1:]} or 1,200 steps",
            f"With 143 labels, a start from {told} and 120 steps with them are "
            f"{'better' if claimed > 0 else 'worse'} than fresh weights and 1,200 steps with them.",
            (task, "fresh, 1,200 steps"), starts[task], long, claimed=claimed, unequal=UNLABELED,
            note=f"{STEPS}. It shows whether 120 steps with labels are enough, not what a start is "
            "worth after 1,200, which was not run. The comparison was chosen after the runs had "
            f"been seen. {DIGITS}",
        )
        for task, told, claimed in (
            ("SimCLR", "SimCLR", 1), ("masked colours", "masked colours", -1),
            ("BYOL", "BYOL", -1), ("masked pixels (MAE)", "a masked autoencoder", -1),
        )
    ]  # fmt: skip
    claims += [
        Claim(
            "Views",
            "SimCLR's features are better if its two views differ: more held-out digits have a "
            "nearest other one with their label.",
            ("views that differ", "equal views"), learned("simclr", **SHORT),
            learned("simclr", **SHORT, **UNCHANGED),
            note="Ten epochs, 220 steps each. The rule was written before the runs. Equal views "
            "are those of the unchanged digit: two views that are changed alike were not run.",
        ),
        Claim(
            "Changes with labels",
            "With 288 labels and nothing else, digits that are changed as SimCLR's views are, are "
            "better than unchanged ones.",
            ("changed", "unchanged"), *_changes(),
            note="These runs were made for the chapter on small data; this use was chosen later. "
            "They are accuracies of classifiers: how much of SimCLR's gain the changes explain, "
            "they cannot say.",
        ),
        Claim(
            "Masked colours, 120 steps",
            "With 143 labels, a start from masked colours is better than fresh weights, both with "
            "120 steps.",
            ("masked colours", "fresh, 120 steps"), starts["masked colours"],
            starts["fresh, 60 epochs"],
            reported="On ImageNet 79.9 %, two points above training from scratch (Dosovitskiy et "
            "al. 2021, section 4.6).",
            note="The 1,320 steps before are not counted here, and 120 hardly train fresh weights: "
            "compare the claim of 1,200 steps. "
            f"{DIGITS}",
        ),
        Claim(
            "Masked colours or labels",
            "With 143 labels, a start from masked colours is worse than one from all 1,442 labels.",
            ("masked colours", "all labels"), starts["masked colours"], starts["all labels"],
            claimed=-1,
            reported="On ImageNet four points behind pre-training with labels (Dosovitskiy et al. "
            "2021, section 4.6), of 300 million other images.",
            note=DIGITS,
        ),
        Claim(
            "BYOL or SimCLR",
            "BYOL's features are worse than SimCLR's: fewer held-out digits have a nearest other "
            "one with their label.",
            ("BYOL", "SimCLR"), learned("byol"), learned("simclr"), claimed=-1,
            reported="On ImageNet 74.3 against 69.3 %, linear probe, ResNet-50 (Grill et al. "
            "2020): the other way round.",
            note=f"{DIGITS} 1,320 steps may be few for a slow copy.",
        ),
    ]  # fmt: skip
    missing = runs.not_run(("self_supervision", "self_supervision_dino"))
    return Evidence(claims, _tables(), missing)


def _changes() -> tuple[list[Result], list[Result]]:
    """Of a plain ViT and its labels: with the changes of the digits, and without."""
    plain = {"drop_path": 0.0, "weight_decay": 0.0, "label_smoothing": 0.0, "distillation": ""}
    rows = runs.select(runs.read_all(), experiment="generalisation_digits", model=BODY)
    rows = [row for row in rows if all(row.recipe[key] == value for key, value in plain.items())]
    return [row for row in rows if row.recipe["shift"]], [
        row for row in rows if not row.recipe["shift"]
    ]


def _tables() -> list[Table]:
    found = worth()
    mean, flat = (
        [{"features": name, "seeds": str(len(rows))}
         | {f"{shots} a class": _mean([row[f"ridge{way}"][i] for row in rows])
            for i, shots in enumerate(SHOTS)}
         | {"nearest other": _mean([row[f"nearest{way}"] for row in rows])}
         for name, rows in found.items()]
        for way in ("", "_flat")
    )  # fmt: skip
    blocks = [
        {"body": name} | {f"block {block + 1}": _mean(each) for block, each in
                          enumerate(zip(*(row["blocks"] for row in rows), strict=True))}
        for name, rows in found.items() if rows[0]["blocks"]
    ]  # fmt: skip
    far = [
        {"body": name} | {f"layer {layer + 1}": f"{sum(each) / len(each):.2f}" for layer, each in
                          enumerate(zip(*(row["distance"] for row in rows), strict=True))}
        for name, rows in found.items() if rows[0]["distance"]
    ]  # fmt: skip
    traced = {quantity: traces(quantity) for quantity in ("loss", "spread")}
    ends = [
        {"task": way} | {f"{quantity} at step {point[0]}": f"{point[1]:.3f}"
                         for quantity, found in traced.items() for point in found[way]
                         if point[0] in (10, 100, 220)}
        for way in traced["loss"]
    ]  # fmt: skip
    return [
        Table(
            "Frozen features of digits",
            "Linear probe (ridge regression) after a few labelled digits of each class, mean of "
            "five draws and of the seeds, in %; and the share of held-out digits whose nearest "
            "other one has their label. The bodies are those after 1,320 steps without labels, all "
            "by one recipe: no task has settings of its own, and another recipe may order the "
            "tasks differently. Features: the mean of the patch tokens.",
            mean,
        ),
        Table(
            "Frozen features, tokens side by side",
            "The same bodies and readers. Features: the 16 patch tokens (of next pixels 64) side "
            "by side, as the pixels are. A two-view task trains the mean; the others do not.",
            flat,
        ),
        Table(
            "Block by block",
            "The same probe after 20 digits a class, on the mean token behind each block, in %. "
            "iGPT's features are best in the middle of the model (Chen et al. 2020a); those of "
            "next pixels here, of four blocks, are best at its end.",
            blocks,
        ),
        Table(
            "How far the heads look",
            "Mean attention distance on held-out digits, even attention = 1, mean of the heads "
            "and of the seeds. A grid of 4 x 4 patches leaves little room for near and far.",
            far,
        ),
        Table(
            "Collapse",
            "Two-view tasks on digits, batches of 32, means of three seeds. A spread of 0: all "
            "images get one answer. ln 64 = 4.159 is the loss of an even answer. Without its slow "
            "copy BYOL fails on ImageNet, 0.3 % (Grill et al. 2020, table 5a); a predictor and a "
            "stopped gradient can be enough (Chen and He 2021).",
            ends,
        ),
    ]  # fmt: skip


def _mean(shares: Sequence[float]) -> str:
    return f"{100 * sum(shares) / len(shares):.0f}"
