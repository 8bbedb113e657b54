"""What stands behind the chapter on detection: one measurement, trained in equal steps."""

from vitbook import runs
from vitbook.runs import Evidence, Measurement, Table
from vitbook.runs.tables import interval
from vitbook.studies.detection.matching import NO_OBJECT


def evidence() -> Evidence:
    (found,) = runs.measurements("detection")
    return Evidence((), [_arms(found), _curves(found)])


def _arms(found: Measurement) -> Table:
    about = found.settings
    return Table(
        "The set loss and its controls",
        f"{about['images']}. {about['steps']:,} steps of {about['batch']} canvases for each arm, "
        f"{about['canvases']:,} canvases to learn from; {about['held_out']} held-out canvases with "
        f"{about['objects_held_out']:,} objects. AP as COCO counts it; brackets are 95 % intervals "
        "by a bootstrap over held-out canvases; they need not be centred, as AP is no mean, and "
        "say nothing of other seeds. Duplicates: "
        "answers of a probability of 0.5 or more to an object beyond its first, of any class, with "
        "an IoU of 0.5 or more. Three queries learned from the canvases with at most three "
        "objects, and were asked of all.",
        [
            {"arm": row["arm"], "seed": str(row["seed"]), "AP50": interval(row["ap50"], ".2f"),
             "AP": interval(row["ap"], ".2f"),
             "duplicates an object": f"{row['duplicates']:.2f}",
             "recall that the queries allow": f"{row['recall_at_most']:.2f}"}
            for row in found.rows
        ],
    )  # fmt: skip


def _curves(found: Measurement) -> Table:
    steps = [point["step"] for point in found.rows[0]["curve"]]
    return Table(
        "AP50 by steps",
        "On the held-out canvases, after so many steps. Patches, positions, rate and the weight of "
        f'"no object" ({NO_OBJECT:g}; the paper has 0.1) were chosen for the set loss, and by '
        "held-out digits, so that its numbers flatter. "
        "Deformable attention comes with learned reference points, from which boxes are told too: "
        "its lead is that of both.",
        [
            {"arm": row["arm"], "seed": str(row["seed"])}
            | {
                f"{step:,}": f"{point['ap50']:.2f}"
                for step, point in zip(steps, row["curve"], strict=True)
            }
            for row in found.rows
        ],
    )
