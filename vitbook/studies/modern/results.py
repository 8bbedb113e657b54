"""What the runs of the experiment say: a table, a figure, and sentences that follow the rows."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import mean

import torch
from matplotlib.figure import Figure

import vitbook
from vitbook import plots, runs
from vitbook.measure import count_macs, count_parameters
from vitbook.runs import Claim, Comparison, Evidence, Result
from vitbook.studies.modern.changes import CHANGES, NAMES, PLAIN, ROLES

Trained = Mapping[str, Sequence[Result]]
NOT_RUN = "not run"


def trained(rows: Iterable[Result] | None = None) -> dict[str, list[Result]]:
    """Role of the experiment -> its rows, all seeds that there are; none if it was not run.

    Args:
        rows: by default those of the ledger.
    """
    found = runs.get_experiment("modern").rows(rows)
    return {role: found[role] for role in ROLES}


def comparisons(found: Trained) -> dict[str, Comparison]:
    """Change -> its runs beside plain's, where both were run."""
    if not found["plain"]:
        return {}
    return {role: runs.compare(found[role], found["plain"]) for role in CHANGES if found[role]}


def claims(found: Trained) -> list[Claim]:
    return [
        Claim(
            NAMES[role], f"A small ViT with {NAMES[role]} names more photographs than the plain "
            "one.", (NAMES[role], "plain"), found[role], found["plain"],
            note="Said before the runs: a change helps, or harms, if the interval over all seeds "
            "lies above 0, or below; what Holm over all changes does not keep is a lead.",
        )
        for role in comparisons(found)
    ]  # fmt: skip


def step_costs() -> dict[str, list[float]]:
    """Change -> time of a training step over plain's: median, and the ends of its interval."""
    (kept,) = runs.measurements("change_costs", PLAIN)
    return {row["role"]: row["step"] for row in kept.rows}


def counts(role: str) -> tuple[int, int]:
    """Parameters, and multiply-adds of a forward pass, of the model of a change."""
    with torch.random.fork_rng(devices=[]):
        model = vitbook.create_model(ROLES[role].model).eval()
    return count_parameters(model), count_macs(model, torch.zeros(1, 3, 32, 32))


def side_by_side(found: Trained) -> list[dict[str, str]]:
    """All twelve rows: size, cost of a step, accuracy, and the difference from plain."""
    compared, steps = comparisons(found), step_costs()
    lines = []
    for role in ROLES:
        parameters, macs = counts(role)
        lines.append({
            "change": NAMES[role], "parameters": f"{parameters:,}",
            "multiply-adds, M": f"{macs / 1e6:.1f}",
            "step / plain": f"{steps[role][0]:.2f}" if role != "plain" else "1",
            "accuracy, %": _accuracy(found[role]),
            "more than plain": _gap(compared[role]) if role in compared else "",
        })  # fmt: skip
    return lines


def _accuracy(rows: Sequence[Result]) -> str:
    if not rows:
        return NOT_RUN
    told = runs.summary([100 * row.accuracy for row in rows], 10_000)
    spread = f" ± {told.deviation:.1f}" if len(rows) > 1 else ""
    return f"{told.mean:.1f}{spread}"


def _gap(found: Comparison) -> str:
    ends = f" ({found.low:+.1f} to {found.high:+.1f})" if found.points else ""
    return f"{found.gap:+.1f}{ends}".replace("-", "−")


def seeds_told(found: Trained) -> str:
    """How many runs each row has, in words: "one seed each", "2 to 3 seeds each"."""
    numbers = {len(rows) for rows in found.values() if rows}
    if not numbers:
        return "no run yet"
    least, most = min(numbers), max(numbers)
    told = (
        "one seed"
        if most == 1
        else f"{most} seeds"
        if least == most
        else f"{least} to {most} seeds"
    )
    missing = sum(not rows for rows in found.values())
    return f"{told} each" + (f"; {missing} of the twelve rows not run" if missing else "")


def spread_told(found: Trained) -> str:
    """What the ± of the table is, or why there is none."""
    if any(len(rows) > 1 for rows in found.values()):
        return "± is the deviation between seeds, in brackets a 95 % interval over seeds"
    luck = [one.high - one.gap for one in comparisons(found).values()]
    if not luck:
        return "nothing can be compared yet"
    return (
        f"the choice of the test images alone moves a difference by ±{mean(luck):.1f} points "
        "(95 %), another seed by an amount that single runs do not show"
    )


def told(found: Trained) -> str:
    """What the rows show of the single changes; the words follow the rows."""
    evidence = Evidence(claims(found))
    compared = {claim.name: claim.comparison for claim in evidence.claims}
    alone = {name: one for name, one in compared.items() if "together" not in name}
    if not alone:
        return "None of the changes can be compared yet: their rows, or plain's, were not run."
    if not evidence.chances:
        return _shown(alone)
    words = {
        "agrees": "above plain", "a lead for": "leads upwards", "contradicts": "below plain",
        "a lead against": "leads downwards", "open": "not told apart from plain",
    }  # fmt: skip
    kinds: dict[str, list[str]] = {}
    for name, one in alone.items():
        verdict = evidence.verdict(name)
        told = name if verdict in words else f"{name} {_gap(one)}"
        kinds.setdefault(verdict if verdict in words else "once", []).append(told)
    parts = [f"{told}: {', '.join(kinds[kind])}" for kind, told in words.items() if kind in kinds]
    said = f"By Holm over {len(evidence.chances)} comparisons, {'; '.join(parts)}."
    if "once" not in kinds:
        return said
    return f"{said} Single runs, which decide nothing: {', '.join(kinds['once'])}."


def _shown(alone: Mapping[str, Comparison]) -> str:
    order = sorted(alone, key=lambda name: alone[name].gap)
    if len(order) == 1:
        told = f"{order[0]}, {_gap(alone[order[0]])} points"
        return f"One change was run beside plain, once: {told}. It shows, and decides nothing."
    within = sum(one.low <= 0 <= one.high for one in alone.values())
    return (
        f"These are single runs: they show, and decide nothing. Highest beside plain lies "
        f"{order[-1]} ({_gap(alone[order[-1]])}), lowest {order[0]} ({_gap(alone[order[0]])}); "
        f"{within} of {len(alone)} lie within what the test images alone can do."
    )


def together_told(found: Trained) -> str:
    """All changes at once beside the sum of each alone, and what the optimizer adds."""
    compared = comparisons(found)
    parts = [r for r in CHANGES if r in compared and not r.startswith("modern")]
    dropped = [r for r in parts if r not in ("patch dropout", "Muon")]
    if "modern, AdamW" not in compared or len(dropped) < 7:
        return "All together cannot be set beside its parts yet."
    adamw, total = compared["modern, AdamW"], sum(compared[r].gap for r in dropped)
    said = (
        f"All seven parts of the model together, with AdamW, differ from plain by {_gap(adamw)} "
        f"points; their single differences add up to {total:+.1f}"
    )
    # Plain is subtracted once a part, and once from all of them.
    weights = {"modern, AdamW": 1, **dict.fromkeys(dropped, -1), "plain": len(dropped) - 1}
    sides = [(weight, [100 * row.accuracy for row in found[r]]) for r, weight in weights.items()]
    if min(len(seeds) for _, seeds in sides) > 1:
        said += f", which leaves {runs.contrast(*sides)}"
    if "modern" in compared:
        said += f". With Muon the difference is {_gap(compared['modern'])}"
    return said.replace("-", "−") + "."


def drawn(found: Trained) -> Figure | plots.Diagram:
    """Differences from plain with their intervals; where nothing was run, that it was not."""
    compared = comparisons(found)
    if not compared:
        return plots.Diagram([NOT_RUN])
    over = "seeds" if all(one.points for one in compared.values()) else "test images or seeds"
    return plots.intervals(
        {NAMES[role]: (one.gap, one.low, one.high) for role, one in compared.items()},
        "Each change beside the plain model, equal steps", levels={"plain": 0},
        x_label=f"points more than plain, 95 % over {over}",
    )  # fmt: skip
