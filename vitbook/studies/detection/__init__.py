"""A set of answers: the detector of the chapter, its loss, its score, and how they are drawn."""

from vitbook import runs
from vitbook.runs.tables import interval
from vitbook.studies.detection.average_precision import Judged, duplicates, found_by
from vitbook.studies.detection.boxes import corners, overlaps
from vitbook.studies.detection.canvases import Canvases, Objects, make_canvases
from vitbook.studies.detection.detector import Answers, DecoderBlock, Detector, make_detector
from vitbook.studies.detection.drawings import boxes_on, query_attention
from vitbook.studies.detection.kept import load_detector
from vitbook.studies.detection.matching import costs, match_best, match_from_left, set_loss

__all__ = [
    "Answers",
    "Canvases",
    "DecoderBlock",
    "Detector",
    "Judged",
    "Objects",
    "boxes_on",
    "changed",
    "corners",
    "costs",
    "duplicates",
    "found_by",
    "learning_curves",
    "load_detector",
    "make_canvases",
    "make_detector",
    "match_best",
    "match_from_left",
    "measured",
    "overlaps",
    "query_attention",
    "set_loss",
]

# Arm of the measurement -> how the chapter tells what it changes.
CHANGED = {
    "set loss": "(the set loss)",
    "no matching, from left to right": "a fixed order",
    "queries do not meet": "queries do not attend to one another",
    "no object counts nothing": '"no object" counts nothing in the loss',
    "three queries": "three queries",
    "deformable attention": "deformable attention",
}


def measured(seed: int = 0) -> dict[str, dict]:
    """Arm -> its row of the measurement, of one seed."""
    (found,) = runs.measurements("detection")
    return {row["arm"]: row for row in found.rows if row["seed"] == seed}


def changed() -> list[dict[str, str]]:
    """Arms beside the set loss, with AP50 and second answers of held-out canvases, for a table."""
    rows = measured()
    return [
        {
            "what is changed": told,
            "AP50": interval(rows[arm]["ap50"], ".2f"),
            "second answers per object": f"{rows[arm]['duplicates']:.2f}",
        }
        for arm, told in CHANGED.items()
    ]


def learning_curves(seed: int = 0) -> dict[str, list[tuple[int, float]]]:
    """Arm -> (step, AP50) of held-out canvases, as ``vitbook.plots.trends`` draws them."""
    return {
        arm: [(point["step"], point["ap50"]) for point in row["curve"]]
        for arm, row in measured(seed).items()
    }
