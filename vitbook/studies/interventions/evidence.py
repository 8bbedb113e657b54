"""What stands behind the chapter on interventions: measurements of finished models, no runs."""

from vitbook import runs
from vitbook.runs import Evidence, Table
from vitbook.runs.tables import interval
from vitbook.studies.interventions.classes import SUBJECT

_FLOWERS = "vit_small_patch14_focus-tf_flowers-mean"
_NAMES = {"idle": "attention sink"}  # what rows call a kind, and the field does


def evidence() -> Evidence:
    return Evidence((), [
        _patched(), _lens(), _added(), _cost(), _heads(), _kinds(), _sparse(), _steered(),
        _collages(),
    ])  # fmt: skip


def _of(kind: str, subject: str = SUBJECT):
    (found,) = runs.measurements(kind, subject)
    return found


def _told(value: list[float] | None) -> str:
    return "" if value is None else interval(value, ".2f")


def _patched() -> Table:
    found = _of("patched")
    return Table(
        "Tokens of another image",
        f"{found.settings['pairs']} pairs of held-out images that the model answers rightly. Share "
        "of pairs whose answer is the other image's after its tokens were swapped in behind so "
        "many blocks, and, as a control, share that keep their own answer when the tokens are "
        "those of another image of the same class. 95 % intervals by a bootstrap over pairs.",
        [
            {"behind block": str(row["block"]), "tokens": row["tokens"],
             "the other's answer": _told(row["other"]), "one's own": _told(row["own"]),
             "own, same class": _told(row["same_class"])}
            for row in found.rows
        ],
    )  # fmt: skip


def _lens() -> Table:
    found = _of("lens")
    about = found.settings
    return Table(
        "Read early",
        f"Accuracy on {about['held_out_images']} held-out images of ten classes (chance 0.1): the "
        "model's own last norm and head behind each block (lens), a logistic regression that was "
        f"fitted behind each block on {about['training_images']} training images (probe), the mean "
        "share of patches whose own lens is right, and the lens of a body of fresh weights.",
        [
            {"behind block": str(row["block"])}
            | {name: _told(row[name]) for name in ("lens", "probe", "patches", "untrained")}
            for row in found.rows
        ],
    )


def _added() -> Table:
    found = _of("added")
    return Table(
        "What each part adds, and what it costs to swap it",
        f"{found.settings['pairs']} of these pairs. The score is the logit of the image's own "
        "class less that of the other image's. Direct: what the part adds to the score, less what "
        "it adds for the other image. Swapped: what the score falls by when the part answers as "
        "for the other image, and all later parts see it. The control swaps in what the part gives "
        "for another image of the same class.",
        [
            {"part": row["part"].removeprefix("encoder."), "direct": _told(row["direct"]),
             "swapped": _told(row["patched"]), "same class": _told(row["same_class"])}
            for row in found.rows
        ],
    )  # fmt: skip


def _cost() -> Table:
    found = _of("probe_cost")
    return Table(
        "What a look costs",
        f"In forward passes of the same batch of {found.settings['batch']} images, on one thread: "
        "median of 20 interleaved rounds, with a 95 % interval. Patching runs two images. The lens "
        "and the contributions first run one image to find the norm and the head, and with larger "
        "batches come nearer to one pass.",
        [{"look": row["probe"], "forward passes": _told(row["forwards"])} for row in found.rows],
    )


def _heads() -> Table:
    found = _of("head_ablation", _FLOWERS)
    costly = sorted(found.rows, key=lambda row: -row["drop"][0])
    sink = [row for row in found.rows if row["kind"] == "idle"]
    nothing = sink_drop("zero")
    return Table(
        "Heads taken away, one at a time",
        f"{found.settings['photographs']} held-out photographs of five flowers; a head's output "
        "becomes its mean over 64 other photographs. Drop of the score, the logit of the right "
        f"class less the mean of all five, which is {_told(found.settings['intact_score'])} with "
        f"all heads. The attention sink and the ten most costly of {len(found.rows)} heads; "
        f"{_cheap(found)} of them cost less than 5 %. With zeros in its place the sink costs "
        f"{_told(nothing)}.",
        [
            {"layer": str(row["layer"]), "head": str(row["head"]),
             "kind": _NAMES.get(row["kind"], row["kind"]), "drop": _told(row["drop"]),
             "accuracy": f"{row['accuracy']:.2f}"}
            for row in (*sink, *costly[:10])
        ],
    )  # fmt: skip


def sink_drop(by: str) -> list[float]:
    """What the attention sink, head 6 of block 1, costs: [mean, low, high]."""
    found = _of("head_ablation", f"vit_small_patch14_focus-tf_flowers-{by}")
    (drop,) = (row["drop"] for row in found.rows if row["kind"] == "idle")
    return drop


def _cheap(found) -> int:
    """Heads without which less than 5 % of the score is lost."""
    return sum(row["drop"][0] < 0.05 * found.settings["intact_score"][0] for row in found.rows)


def _kinds() -> Table:
    found = _of("ablation", _FLOWERS)
    return Table(
        "Heads of one kind taken away together",
        "Kinds by what maps show on nine photographs: an attention sink gives half of its weight "
        "to one token, near heads look less than half as far as even attention, and offset or "
        "content explains at least 0.3 of the variance of the others' weights. The control takes "
        f"as many random heads of other kinds from the same layers, {found.settings['draws']} "
        "draws; layers with too few others are left out on both sides.",
        [
            {"kind": _NAMES.get(row["kind"], row["kind"]), "heads": str(len(row["compared"])),
             "drop": _told(row["compared_drop"]), "random heads": _told(row["random_drop"]),
             "difference": _told(row["lead"]),
             "draws that cost as much": str(
                 sum(each >= row["compared_drop"][0] for each in row["random_drops"]))}
            for row in found.rows
        ],
    )  # fmt: skip


def _sparse() -> Table:
    found = _of("sparse")
    about = found.settings
    return Table(
        "Features of a sparse autoencoder",
        f"{about['features']:,} directions, {about['active']} of them for a patch token, fitted to "
        f"the tokens behind block 9 of {about['training_images']} training images of ten classes, "
        "and to those of a body of fresh weights. One class: of the 20 images with the strongest "
        "patch for a direction, the share of their commonest class, the mean over directions; "
        "beside it the same for single channels and for principal directions.",
        [
            {"weights": row["weights"], "variance rebuilt": f"{row['explained']:.2f}",
             "never used": f"{row['dead']:.2f}", "one class, features": f"{row['features']:.2f}",
             "channels": f"{row['channels']:.2f}", "principal": f"{row['principal']:.2f}"}
            for row in found.rows
        ],
    )  # fmt: skip


def _steered() -> Table:
    found = _of("steered")
    return Table(
        "Pushed along a direction",
        "Behind block 9 a direction is added to each patch token of "
        f"{found.settings['held_out_images']} held-out images, less those of the class itself: "
        "the feature which a class uses most beyond all other classes, as strong as where it is "
        "used there, or four times; the mean token of the class less that of all images; a random "
        "one; all of the same length. Rise of the class's logit over the mean of all logits, and "
        "share of images that are then given that class. 95 % intervals by a bootstrap over the "
        "ten classes.",
        [
            {"direction": row["direction"], "times": str(row["times"]),
             "rise": _told(row["own"]), "given that class": _told(row["first"])}
            for row in found.rows
        ],
    )  # fmt: skip


def _collages() -> Table:
    found = _of("collages")
    about = found.settings
    return Table(
        "Do explanations find the photograph that shows the class?",
        f"{about['collages']} collages of four held-out images each, of nine classes, four "
        "questions each. Without the photograph that shows the class its logit falls by "
        f"{about['logit_drop_of_right_quarter']:.1f} on average, and without another one it rises "
        f"by {-about['logit_drop_of_other_quarters']:.1f}. Pointing: how often the map's largest "
        "number lies in the right quarter. Energy: the share of what is positive that lies there. "
        "A map that knows no class has 0.25 in both. Intervals over collages.",
        [
            {"explanation": row["name"], "the head reads": row["reads"],
             "pointing": _told(row["pointing"]), "energy": _told(row["energy"])}
            for row in found.rows
        ],
    )  # fmt: skip
