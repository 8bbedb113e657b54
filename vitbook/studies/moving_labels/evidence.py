"""What the chapter on labels that move claims, of the rows that the ledger has."""

from base64 import b64decode
from functools import cache
from statistics import mean

import numpy as np

from vitbook import runs
from vitbook.runs import Claim, Evidence, Result, Table
from vitbook.runs.plan import get_experiment
from vitbook.runs.statistics import Difference, difference
from vitbook.runs.tables import interval
from vitbook.studies.moving_labels.measured import OF_OBJECTIVE, PLACES, SHOWN, WAYS

__all__ = ["beyond_place", "clouds", "evidence", "learned", "numbers", "photographs", "traces",
           "worth", "worth_over_fresh"]  # fmt: skip

NOTHING, OTHERS = next(iter(WAYS)), "all other tokens"
PHOTOS = "vit_mini_patch8_64"
TOKENS, PIXELS = "hidden tokens (I-JEPA)", "hidden pixels (MAE)"
SHOTS, READ_ON = 50, "cifar10-0.2"
READOUTS = {
    "ridge": "ridge, mean", "ridge_flat": "ridge, side by side",
    "nearest": "nearest, mean", "nearest_flat": "nearest, side by side",
}  # fmt: skip
SHORT = {
    "nothing": "nothing", "a copy that stays": "copy that stays", "a slow copy": "slow copy",
    "a slow copy, centred and sharpened": "slow, centred", "all other tokens": "other tokens",
    "a stopped gradient": "stopped gradient",
}  # fmt: skip


@cache
def learned(experiment: str) -> dict[str, list[Result]]:
    """Role of an experiment -> its rows that the ledger has; roles without one are left out."""
    return {role: rows for role, rows in get_experiment(experiment).rows().items() if rows}


def _traces() -> tuple[list[int], dict[str, dict]]:
    (seen,) = runs.measurements("label_traces")
    return seen.settings["steps"], {row["way"]: row for row in seen.rows}


def traces(quantity: str) -> dict[str, list[tuple[int, float]]]:
    """What holds the labels -> step and loss, or spread of the labels, of one short training."""
    steps, ways = _traces()
    return {way: list(zip(steps, row[quantity], strict=True)) for way, row in ways.items()}


def clouds() -> dict:
    """Labels, losses, steps and places as :func:`vitbook.figures.label_cloud` takes them."""
    steps, ways = _traces()
    kept = {}
    for way, row in ways.items():
        levels = np.frombuffer(b64decode(row["labels"]), np.int8)
        kept[SHORT[way]] = levels.reshape(len(steps), SHOWN * len(PLACES), -1)
    losses = {SHORT[way]: row["loss"] for way, row in ways.items()}
    places = list(range(len(PLACES))) * SHOWN
    return {"labels": kept, "losses": losses, "steps": steps, "groups": places}


def worth() -> dict[str, list[dict]]:
    """Pixels, fresh weights and each way -> what was read of each seed's frozen body."""
    (seen,) = runs.measurements("token_worth")
    found: dict[str, list[dict]] = {}
    for row in seen.rows:
        found.setdefault(OF_OBJECTIVE.get(row["body"], row["body"]), []).append(row)
    return found


def worth_over_fresh(readout: str) -> dict[str, Difference]:
    """Way -> points that its bodies are above fresh weights, 95 % over three seeds of each.

    Args:
        readout: a column of the measurement, such as "nearest" or "ridge_flat".
    """
    points = {name: [100 * row[readout] for row in rows] for name, rows in worth().items()}
    return {way: difference(points[way], points["fresh weights"], finest=100 / 355)
            for way in WAYS if way in points}  # fmt: skip


def beyond_place() -> dict[str, dict[str, float]]:
    """Way -> loss and share found on held-out digits, own and of one answer a place; seeds' mean"""
    (seen,) = runs.measurements("beside_places")
    found = {}
    for body, way in OF_OBJECTIVE.items():
        rows = [row for row in seen.rows if row["body"] == body]
        keys = rows[0].keys() - {"body", "seed"}
        found[way] = {key: sum(row[key] for row in rows) / len(rows) for key in keys}
    return found


@cache
def photographs() -> dict[str, list[list[float]]]:
    """Features -> accuracy on CIFAR-10, its mean and interval, of each seed that was read.

    Ridge regression after 50 images a class on frozen tokens, of bodies that learned without labels
    from Tiny-ImageNet; beside fresh weights and pixels.
    """
    read = {each.subject: each for each in runs.measurements("few_shot")}
    found: dict[str, list[list[float]]] = {role: [] for role in learned("hidden_tokens")}
    for role, rows in learned("hidden_tokens").items():
        for row in rows:
            if (seen := read.get(f"{row.name}-{READ_ON}")) is None:
                continue
            for each in seen.rows:
                if each["reader"] == "ridge" and each["shots"] == SHOTS:
                    own = each["features"] == "pretrained"
                    name = role if own else each["features"]
                    if own or name not in found:  # the controls are the same each time
                        found.setdefault(name, []).append(each["accuracy"])
    return {name: some for name, some in found.items() if some}


def numbers() -> dict[str, float | str]:
    """What the text says, in percent but for the spreads, by the names under which it is glued."""
    blind, read = beyond_place(), worth()
    keys = {"stays": "a copy that stays", "slow": "a slow copy", "others": OTHERS}
    below = {key: 1 - blind[way]["loss"] / blind[way]["place_loss"] for key, way in keys.items()}
    levels = {
        "nearest-level-fresh": ("nearest", "fresh weights"),
        "nearest-level-nothing": ("nearest", NOTHING),
        "nearest-level-pixels": ("nearest", "pixels"),
        "ridge-level-pixels": ("ridge", "pixels"),
    }
    spread = [value for _, value in traces("spread")[OTHERS]]
    seeds = min(map(len, learned("hidden_tokens").values()))
    return {
        **{f"blind-share-{key}": 100 * share for key, share in below.items()},
        **{key: 100 * mean(row[how] for row in read[of]) for key, (how, of) in levels.items()},
        "others-least": min(spread),
        "others-last": spread[-1],
        "photo-runs": f"{seeds} run{'s' * (seeds > 1)}",
    }


def evidence() -> Evidence:
    ways = learned("token_labels")
    claims = [
        Claim(
            f"{way[:1].upper()}{way[1:]}",
            f"With labels held by {way}, a body learns: more held-out digits have a nearest other "
            "one with their label than where nothing holds the labels.",
            (way, NOTHING), ways[way], ways[NOTHING],
            note="660 steps of 64 digits, half of the patches hidden, mean token. Digits of 8 x 8 "
            "pixels neither confirm nor refute a result on ImageNet.",
        )
        for way in ways if way != NOTHING
    ]  # fmt: skip
    photos = learned("hidden_tokens")
    if {TOKENS, PIXELS} <= photos.keys():
        claims.append(Claim(
            "Tokens or pixels",
            "To predict hidden patches as a slow copy's tokens gives better features than to "
            "predict them as pixels: more held-out photographs of Tiny-ImageNet have a nearest "
            "other one of their 200 classes.",
            (TOKENS, PIXELS), photos[TOKENS], photos[PIXELS],
            reported="ImageNet, linear probe: I-JEPA is above MAE, after fewer epochs (Assran et "
            "al. 2023, table 1).",
            note="780 steps of 128 photographs, one pass over Tiny-ImageNet, by one recipe: the "
            "papers train for hundreds of epochs.",
        ))  # fmt: skip
    missing = runs.not_run(("token_labels", "hidden_tokens"))
    return Evidence(claims, [*_digits(ways), *_read()], missing)


def _digits(ways: dict[str, list[Result]]) -> list[Table]:
    ends = [
        {"held by": way, "seeds": str(len(rows))}
        | {name: f"{_mean(rows, key):{form}}" for name, key, form in (
            ("loss", "loss", ".3f"), ("spread of the labels", "spread", ".3f"),
            ("found", "found", ".1%"), ("nearest other", "accuracy", ".1%"))}
        for way, rows in ways.items()
    ]  # fmt: skip
    tables = [Table(
        "Labels after 660 steps",
        "Means of the seeds at the end. Spread: of the labels at one place over held-out digits, "
        "mean of the places; 0 is one label for all. Found: hidden tokens whose own label has the "
        "largest inner product among all hidden tokens of 64 held-out digits, 512 in all: a guess "
        "finds 0.2 %, and one answer for each of the 16 places 3.1 % at most. Losses of different "
        "ways are no scores of one scale.",
        ends,
    )]  # fmt: skip
    if runs.measurements("token_worth"):
        tables.append(Table(
            "Beside answers that see no image",
            "Means of the seeds, at 512 hidden tokens of 64 held-out digits. Place only: one "
            "answer for each place, the best for these very labels. A copy that follows is not "
            "kept: the body at the end makes its labels here.",
            [{"held by": way, "loss": f"{row['loss']:.3f}",
              "place only": f"{row['place_loss']:.3f}",
              "found": f"{row['found']:.1%}", "place only finds": f"{row['place_found']:.1%}"}
             for way, row in beyond_place().items()],
        ))  # fmt: skip
        lines = [
            {"features": name, "seeds": str(len(rows))}
            | {told: f"{100 * sum(row[key] for row in rows) / len(rows):.0f}"
               for key, told in READOUTS.items()}
            for name, rows in worth().items()
        ]  # fmt: skip
        tables.append(Table(
            "Frozen features of digits",
            "In %, means of the seeds. Ridge regression after 10 labelled digits a class, mean of "
            "five draws; and the share of held-out digits whose nearest other one has their label. "
            "By the mean of the patch tokens, and by the tokens side by side.",
            lines,
        ))  # fmt: skip
        read = {key: worth_over_fresh(key) for key in READOUTS}
        tables.append(Table(
            "Above fresh weights",
            "The table above less its fresh weights, in points; brackets: 95 % over three seeds of "
            "each, without correction for several comparisons.",
            [{"held by": way} | {told: str(read[key][way]) for key, told in READOUTS.items()}
             for way in ways],
        ))  # fmt: skip
    return tables


def _mean(rows: list[Result], key: str) -> float:
    return sum(row.curve[-1][key] for row in rows) / len(rows)


def _read() -> list[Table]:
    if not photographs():
        return []
    return [Table(
        "Frozen features of photographs",
        "Ridge regression on CIFAR-10 (JPEG copy) after 50 images a class, 2,000 held-out images; "
        "the bodies learned without labels from Tiny-ImageNet, 780 steps. Class token beside the "
        "mean of the patch tokens. Brackets: 95 % over five draws of the labelled images, not over "
        "seeds.",
        [{"features": name, "accuracy": interval(each, ".1%")}
         for name, some in photographs().items() for each in some],
    )]  # fmt: skip
