"""What stands behind the chapter on pyramids."""

from itertools import combinations

from vitbook import runs
from vitbook.runs import Evidence, Table
from vitbook.studies.pyramids.costs import costs_by_size, small_models
from vitbook.studies.pyramids.outcome import (
    EXPERIMENT,
    ROLES,
    WAYS,
    Learned,
    learned,
)


def evidence() -> Evidence:
    found = learned()
    ways = [_ways(found)] if any(found.rows[role] for role in WAYS) else []
    tables = [_sizes(found), *ways, _fine_maps()]
    left = runs.not_run((EXPERIMENT,))
    return Evidence(found.claims, tables, left)


def _sizes(found: Learned) -> Table:
    counted = small_models(found.models.values())
    lines = []
    for role, told in ROLES.items():
        parameters, macs = counted[found.models[role]]
        lines.append({
            "role": told.removeprefix("the "), "model": f"`{found.models[role]}`",
            "parameters": f"{parameters:,}", "multiply-adds": f"{macs / 1e6:.1f} M",
            "accuracy, %": found.top1(role),
        })  # fmt: skip
    return Table(
        "Six models of one cost",
        "Multiply-adds of one image of 32 x 32 pixels. A pyramid has seven times the parameters of "
        "plain: its late layers are wide, and few tokens pass through them. Said before the runs: "
        "a model wins or loses if the 95 % interval of its difference from plain over all seeds "
        "leaves 0; Holm corrects for five comparisons, and what it does not keep is called a lead.",
        lines,
    )


def _ways(found: Learned) -> Table:
    return Table(
        "Three ways to shrink",
        "Points of the first above the second: 95 % intervals over seeds in brackets, or of one "
        "run ± by its test images. Three comparisons, not corrected.",
        [
            {"first": WAYS[a], "second": WAYS[b], "points": found.points(a, b)}
            for a, b in combinations(WAYS, 2)
        ],
    )


def _fine_maps() -> Table:
    return Table(
        "What a map of stride 4 costs",
        "Billions of multiply-adds, counted and not run; ViT-S has the body of "
        "`vit_small_patch16_224`. In windows: all twelve blocks in windows of 7 x 7 tokens, as "
        "Swin-T's, shifted in every second; none attends to all tokens.",
        [
            {"model": name} | {f"{side} px": f"{macs:,.1f}" for side, macs in line}
            for name, line in costs_by_size().items()
        ],
    )
