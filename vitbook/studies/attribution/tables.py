"""The evidence page of attribution: all explanations and controls, in four tables and on a CNN."""

from vitbook import runs
from vitbook.analysis.attribution.scoring import SCORES, TWIN
from vitbook.runs.evidence import Evidence, Table
from vitbook.studies.attribution.scores import (
    READER,
    WAYS,
    recorded_removals,
    recorded_scores,
    scored,
    span,
)


def evidence() -> Evidence:
    return Evidence((), [_all_scores(), _leads(), _removals(), _twins(), _on_a_cnn()])


def _lines(found: dict[str, dict], keys: dict[str, str], **form) -> list[dict[str, str]]:
    return [
        {"explanation": name} | {title: span(row[key], **form) for title, key in keys.items()}
        for name, row in found.items()
        if TWIN not in name
    ]


def _all_scores() -> Table:
    (row,) = runs.measurements("explanations", READER)
    settings = row.settings
    return Table(
        "All explanations, and four controls",
        f"Means over {settings['pictures']} held-out images with 95 % intervals by the bootstrap: "
        "images drawn again, 2,000 times. Pointing: more is better. Deletion: area under the "
        "probability of the class while cells go, less is better; cells become the mean colour. "
        "Insertion: while they come back into the blurred image, more is better. "
        f"{settings['steps']} steps. The last four know no model; the mask is the digit's own. One "
        f"model, one seed. Made by `{row.command}`.",
        _lines(recorded_scores(), {score: score for score in SCORES}),
    )


def _leads() -> Table:
    return Table(
        "Leads over the edge detector",
        "Image by image, so that images which are easy for both do not count. Above zero the "
        "explanation is better, in all three scores.",
        _lines(recorded_scores(), {score: f"{score} lead" for score in SCORES}, digits=3, sign="+"),
    )


def _removals() -> Table:
    row, found = recorded_removals(), scored()
    return Table(
        "Deletion, with what a cell becomes",
        "Area of deletion, in the mean of the images with 95 % intervals, and the lead over the "
        f"edges where holes are filled in. {row.settings['pictures']} images, "
        f"{row.settings['steps']} steps. Imputed: {row.settings['imputed']} (ROAD, Rong et al. "
        f"2022). Made by `{row.command}`.",
        [
            line | {"lead, imputed": found.lead(line["explanation"], "imputed")}
            for line in _lines(found.removed, {way: way for way in WAYS})
        ],
    )


def _twins() -> Table:
    found = recorded_scores()
    return Table(
        "Trained, and with fresh weights",
        "The same explanation of a model of fresh weights (one seed), scored on the trained model "
        "(Adebayo et al. 2018). Alike: rank correlation of the two maps, signs left out, in the "
        "mean of the images. Where the paper is black occlusion and integrated gradients are 0 in "
        "both maps: taking black away changes nothing. That makes their maps alike.",
        [
            {
                "explanation": name, "pointing": span(row["pointing"]),
                "pointing, fresh": span(found[f"{name}, {TWIN}"]["pointing"]),
                "alike": span(row.get("twin")),
            }
            for name, row in found.items() if f"{name}, {TWIN}" in found
        ],
    )  # fmt: skip


def _on_a_cnn() -> Table:
    (row,) = [row for row in runs.read() if row.experiment == "explained_cnn"]
    found = recorded_scores(f"{READER}-beside-{row.name}")
    ending = f", {row.name}"
    of_cnn = {name.removesuffix(ending): each for name, each in found.items() if ending in name}
    return Table(
        "A ResNet-20 on the same images",
        f"It learned the same pictures and reads {100 * row.accuracy:.1f} % of those held out. One "
        "seed. Its last map is averaged into the logits, so the mean in Grad-CAM changes nothing. "
        "By insertion Grad-CAM is the last all the same, perhaps because a cell of that map has "
        "seen far more than its own patch.",
        _lines(of_cnn, {score: score for score in SCORES}),
    )
