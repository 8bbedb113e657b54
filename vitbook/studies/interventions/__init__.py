"""What is taken away, swapped and read early in the chapter on interventions."""

import numpy as np

from vitbook import runs
from vitbook.studies.interventions.classes import CLASSES, SUBJECT, among
from vitbook.studies.interventions.heads import ablate_heads, mean_head_outputs
from vitbook.studies.interventions.quarters import make_collages
from vitbook.studies.interventions.questions import energy_pointing, occlusion_drops
from vitbook.studies.interventions.swaps import four_photographs, shown_pairs, swapped_logits

__all__ = [
    "CLASSES",
    "ablate_heads",
    "among",
    "energy_pointing",
    "four_photographs",
    "make_collages",
    "mean_head_outputs",
    "measured",
    "occlusion_drops",
    "shown_pairs",
    "swapped_answers",
    "swapped_logits",
]


def measured(kind: str, subject: str = SUBJECT) -> list[dict]:
    """The rows of a measurement of the ledger."""
    (found,) = runs.measurements(kind, subject)
    return list(found.rows)


def swapped_answers() -> tuple[dict[tuple[str, str], np.ndarray], list[str]]:
    """Logits of the live figure: pair -> "blocks + 1, sets, classes"; and the classes' names.

    The model chooses among ten; kept are those that some set of parts has as its answer.
    """
    (found,) = runs.measurements("swapped", SUBJECT)
    logits = {
        pair: np.array([row["logits"] for row in found.rows if tuple(row["pair"]) == pair])
        for pair in shown_pairs()
    }
    return logits, found.settings["classes"]
