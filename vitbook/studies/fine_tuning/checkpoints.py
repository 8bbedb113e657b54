"""Eight starts for the flowers: cheap scores of each, and what came of it."""

from collections.abc import Iterator
from functools import cache

from vitbook import analysis, figures, runs
from vitbook.models import list_models
from vitbook.runs import Result
from vitbook.studies.fine_tuning.ledger import NAME
from vitbook.studies.fine_tuning.scores import ranked_body

WORDS = {"vit_mini_patch4_32": "ViT", "rot_vit_mini_patch4_32": "Rot-ViT", "resnet20": "ResNet-20",
         "sl_vit_mini_patch4_32": "SL-ViT", NAME: "descendant of DINOv2"}  # fmt: skip


def ranked() -> Iterator[tuple[str, dict, list[Result]]]:
    """Each start: its name, the row of its scores, and its tuned runs."""
    (scored,) = runs.measurements("transfer_scores", "tf_flowers")
    tuned = runs.select(runs.read(tuned=True), experiment="checkpoints")
    for row in scored.rows:
        name = row["model"]
        start = "" if row["learned_from"] == "nothing" else name
        ends = [run for run in tuned if (run.start or "") == start and (start or run.model == name)]
        if ends:
            yield name, row, sorted(ends, key=lambda run: run.seed)


@cache
def _source(name: str) -> Result | None:
    """The run that the weights come from, if it is one of the book's."""
    return next((run for run in runs.read(dataset="cifar10") if run.name == name), None)


def scores_of(row: dict) -> dict[str, float | None]:
    source = _source(row["model"])
    return {
        "ridge": row["ridge"], "neighbours": row["neighbours"],
        "accuracy on CIFAR-10": source.accuracy if source else None,
    }  # fmt: skip


def candidates() -> list[figures.Candidate]:
    """The cards of the live figure; filters of the first layer are seen on them."""
    made = []
    for name, row, runs_ in ranked():
        source, is_fresh = _source(name), name in list_models()
        kind = WORDS[source.model if source else name]
        if source:
            about = "learned CIFAR-10"
            kind += f", {source.data_passes:.0f} epochs"
        else:
            about = "has learned nothing" if is_fresh else "learned elsewhere, many photographs"
            kind += ", fresh" * is_fresh
        ends = [run.accuracy for run in runs_]
        body, *_ = ranked_body(name, None)
        filters = analysis.embedding_filters(body).by_view[:9, 0]
        made.append(figures.Candidate(
            kind, about, scores_of(row), sum(ends) / len(ends), min(ends), max(ends),
            (255 * analysis.as_images(filters)).round().byte(),
        ))  # fmt: skip
    return made
