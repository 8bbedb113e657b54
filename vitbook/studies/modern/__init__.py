"""What the chapter on changes since 2021 shows: one change at a time, and what each costs."""

from collections.abc import Mapping, Sequence

from vitbook import runs
from vitbook.plots import Diagram
from vitbook.runs import Evidence, Result, Table
from vitbook.runs.rows import Measurement
from vitbook.runs.tables import interval
from vitbook.studies.modern.changes import CHANGES, NAMES, PLAIN
from vitbook.studies.modern.measured import step_lengths, written_out
from vitbook.studies.modern.results import (
    claims,
    counts,
    drawn,
    seeds_told,
    side_by_side,
    spread_told,
    step_costs,
    together_told,
    told,
    trained,
)
from vitbook.studies.modern.works import family, published, recipes

__all__ = [
    "CHANGES",
    "blocks",
    "counts",
    "drawn",
    "evidence",
    "family",
    "faster",
    "numbers",
    "published",
    "recipes",
    "side_by_side",
    "step_costs",
    "step_lengths",
    "trained",
    "written_out",
]


def blocks() -> Diagram:
    """The block of 2020 beside the block with all changes."""
    old = [[["→"], ["LayerNorm", "softmax attention"]], "+",
           [["→"], ["LayerNorm", "MLP\nGELU"]], "+"]  # fmt: skip
    new = [[["→"], ["RMSNorm", "attention\nQK-norm, RoPE,\nthen LayerScale"]], "+",
           [["→"], ["RMSNorm", "SwiGLU\nthen LayerScale"]], "+"]  # fmt: skip
    ways = {
        "The block of 2020: a class token, which is read, and patches, with a position table": old,
        "With all changes: four registers and patches, whose mean is read, without a table": new,
    }
    return Diagram([[[Diagram(["→", *parts, "→"], name)] for name, parts in ways.items()]])


def _kept(kind: str) -> Measurement:
    (kept,) = runs.measurements(kind, PLAIN)
    return kept


def faster() -> dict[int | str, dict]:
    """Tokens -> fused attention beside that written out; "forward" and "training step" ->
    the compiled model beside the same in eager mode."""
    rows = {row["tokens"]: row for row in _kept("fused_attention").rows}
    return rows | {row["what"]: row for row in _kept("compiled").rows}


def numbers(found: Mapping[str, Sequence[Result]]) -> dict[str, float | str]:
    """What the text says, by the names under which it is glued.

    Args:
        found: change -> its rows, see :func:`trained`.
    """
    steps, times = step_costs(), faster()
    said: dict[str, float | str] = {
        "modern-seeds": seeds_told(found), "modern-spread": spread_told(found),
        "modern-single": told(found), "modern-together": together_told(found),
    }  # fmt: skip
    for role in ("RMSNorm", "patch dropout", "RoPE", "modern"):
        said[f"step-{role}".replace(" ", "-")] = steps[role][0]
    for tokens in (64, 256, 1024):
        row = times[tokens]
        said[f"faster-{tokens}"] = row["faster"][0]
        said[f"more-memory-{tokens}"] = row["written_out_mb"] / row["fused_mb"]
    gain = min(times[what]["faster"][1] for what in ("forward", "training step"))
    return said | {"compiled-told": "gains" if gain > 1.05 else "gains next to nothing"}


def evidence() -> Evidence:
    found = trained()
    steps, fused, compiled = map(_kept, ("change_costs", "fused_attention", "compiled"))
    about = fused.settings
    clock = f"{about['rounds']} interleaved rounds on {fused.device}"
    return Evidence(
        claims(found),
        [
            Table(
                "A training step",
                f"Time of a step over plain's: batches of {steps.settings['batch']}, {clock}; "
                f"{about['interval']}. Elsewhere, above all on a GPU, other ratios are to be "
                "expected.",
                [{"change": NAMES[row["role"]], "step / plain": interval(row["step"], ".2f")}
                 for row in steps.rows],
            ),
            Table(
                "Attention, fused and written out",
                f"{about['images']} images, {about['heads']} heads of width "
                f"{about['head_width']}, forward, {about['precision']}, {clock}. Memory: "
                f"{about['memory']}. The process had trained before; one that begins here asks "
                "the system for memory at each call, and the ratio at 256 tokens is larger.",
                [{"tokens": f"{row['tokens']:,}", "times as fast": interval(row["faster"], ".2f"),
                  "written out, MB": f"{row['written_out_mb']:.1f}",
                  "fused, MB": f"{row['fused_mb']:.1f}",
                  "largest difference": f"{row['apart']:.0e}"}
                 for row in fused.rows],
            ),
            Table(
                "The model compiled",
                f"{PLAIN} by torch.compile beside eager mode, batches of "
                f"{compiled.settings['batch']}, {clock}; the time to compile is left out.",
                [{"what": row["what"], "times as fast": interval(row["faster"], ".2f")}
                 for row in compiled.rows],
            ),
        ],
        runs.not_run(["modern"]),
    )  # fmt: skip
