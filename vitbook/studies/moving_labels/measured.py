"""What the chapter on labels that move measures: labels that part or fall together, and bodies."""

from base64 import b64encode
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitbook import datasets
from vitbook.datasets import Dataset, normalize
from vitbook.model_utilities import evaluating
from vitbook.models import create_model
from vitbook.runs import get_recipe
from vitbook.runs.measuring import Sheet, measurement
from vitbook.studies.moving_labels.baseline import answered, by_place, heard
from vitbook.studies.moving_labels.token_labels import (
    CenteredLabels,
    FixedLabels,
    SlowLabels,
    StoppedLabels,
    TokenLabels,
    TokensApart,
)
from vitbook.training.asked import Checkpoints
from vitbook.training.engine.batches import Batches
from vitbook.training.engine.checkpoints import Checkpoint
from vitbook.training.faults import load_checkpoint
from vitbook.training.objectives.readings import mean_tokens, nearest_other, side_by_side, spread
from vitbook.training.transfer.few_shot import few_shot_curve

BODY = "vit_micro_patch2_8"
SHOTS = 10
WAYS: dict[str, type[TokenLabels]] = {
    "nothing": TokenLabels,
    "a copy that stays": FixedLabels,
    "a slow copy": SlowLabels,
    "a slow copy, centred and sharpened": CenteredLabels,
    "all other tokens": TokensApart,
    "a stopped gradient": StoppedLabels,
}
OBJECTIVES = ("free", "fixed", "slow", "centered", "contrast", "stopped")  # of the ways
OF_OBJECTIVE = {f"token_{end}": way for end, way in zip(OBJECTIVES, WAYS, strict=True)}
TRACED = (0, 10, 20, 40, 60, 80, 100, 150, 200, 300, 400)  # steps whose labels are kept
SHOWN, PLACES = 12, (5, 6, 9, 10)  # held-out digits, and the four patches in their middle


def fresh(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return create_model(BODY)


@torch.no_grad()
def all_labels(learner: TokenLabels, images: Tensor) -> Tensor:
    """Labels of all patches, of length 1: "images places dimensions"."""
    with evaluating(learner):
        return F.normalize(learner.label(images).float(), dim=-1)


def trace(way: str, seed: int, digits: Dataset, held_out: Dataset) -> dict[str, list | str]:
    """Labels of some held-out tokens at some steps of a training, 64 digits a step."""
    body = fresh(seed)
    torch.manual_seed(seed)
    learner = WAYS[way](body).train()
    recipe = get_recipe("digits", label_smoothing=0.0, objective="token_free")
    batches = Batches(digits, recipe, seed, torch.device("cpu"))
    weights = [weight for weight in learner.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=1e-3, weight_decay=0.05)
    images, found, kept = normalize(held_out.images), {"loss": [], "spread": []}, []
    for step in range(TRACED[-1] + 1):
        seen = learner(batches[step][0], *learner.inputs(batches, step))
        if step in TRACED:
            labels = all_labels(learner, images)
            found["loss"].append(round(seen.loss.item(), 4))
            found["spread"].append(round(sum(map(spread, labels.unbind(1))) / labels.shape[1], 4))
            middle = labels[:SHOWN, list(PLACES)].flatten(0, 1)
            kept.append((middle * 127).round().to(torch.int8))
        optimizer.zero_grad()
        seen.loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
    return found | {"labels": b64encode(torch.stack(kept).numpy().tobytes()).decode()}


@measurement(label_traces={"way": "{way}", "loss": "{end:.3f}", "spread": "{spread_end:.3f}"})
def label_traces(sheet: Sheet) -> None:
    """Follow the labels that a network gives to hidden tokens, by what holds them apart."""
    sheet.expect("digits")
    digits, held_out = (datasets.load("digits", split) for split in ("train", "test"))
    rows = []
    for way in WAYS:
        found = sheet.once(way, trace, way, 0, digits, held_out)
        ends = {"end": found["loss"][-1], "spread_end": found["spread"][-1]}
        rows.append({"way": way, "seed": 0} | ends | found)
    settings = {
        "steps": list(TRACED),
        "training": "64 digits a step, changed as the recipe of digits says; AdamW 1e-3",
        "loss": "at each step, before its update; of digits that are learned from",
        "spread": "of the labels at one place over held-out digits, mean of all 16 places",
        "labels": f"of {SHOWN} held-out digits the patches {PLACES}, 16 numbers each, times 127: "
        "signed bytes, by step, token and number, as base64",
    }
    sheet.write("digits", settings, rows)


def worth(body: nn.Module, digits: Dataset, held_out: Dataset) -> dict:
    """Of a frozen body: ridge regression and neighbours, of the mean token and side by side."""
    found = {}
    for end, read in (("", mean_tokens), ("_flat", side_by_side)):
        seen, new = (read(body, each.images).cpu() for each in (digits, held_out))
        found |= {f"{key}{end}": score for key, score in told(seen, new, digits, held_out).items()}
    return found


def told(seen: Tensor, new: Tensor, digits: Dataset, held_out: Dataset) -> dict:
    (score,) = few_shot_curve(
        seen, digits.labels, new, held_out.labels, (SHOTS,), readers=("ridge",)
    )
    near = nearest_other(new, held_out.labels)
    return {"ridge": round(score.accuracy[0], 4), "nearest": round(near, 4)}


def learner_of(learned: Checkpoint, kind: type[TokenLabels], seed: int) -> TokenLabels:
    """What learned, with the labels of the end; a copy that followed is its body by then."""
    learner = kind(learned.model)
    learner.load_state_dict(learned.beside, strict=False)
    learner.begin_again()
    if kind.momentum == 1.0:
        learner.slow_model.load_state_dict(fresh(seed).state_dict())
    return learner


def beside_places(learner: TokenLabels, held_out: Dataset) -> dict:
    """Loss and share found of the learner's answers, and of one answer for each place."""
    seen, places = heard(learner, held_out)
    if isinstance(learner, CenteredLabels):
        learner.slow_center = seen.labels.flatten(0, 1).mean(dim=0)
    own, place = answered(learner, seen), by_place(learner, seen.labels, places)
    told = {"loss": own.loss, "place_loss": place.loss,
            "found": own.found, "place_found": place.found}  # fmt: skip
    return {key: round(number, 4) for key, number in told.items()}


@measurement(
    token_worth={"body": "{body}", "seed": "{seed}", "ridge": "{ridge:.3f}",
                 "nearest other": "{nearest:.3f}"},
    beside_places={"body": "{body}", "seed": "{seed}", "loss": "{loss:.3f}",
                   "of places": "{place_loss:.3f}", "found": "{found:.3f}"},
)  # fmt: skip
def token_worth(sheet: Sheet, checkpoints: Checkpoints) -> None:
    """Say what bodies are worth that learned labels of their own, beside fresh ones and pixels."""
    sheet.expect("digits")
    digits, held_out = (datasets.load("digits", split) for split in ("train", "test"))
    pixels = told(*(F.normalize(each.images.flatten(1) / 255) for each in (digits, held_out)),
                  digits, held_out)  # fmt: skip
    flat = {f"{key}_flat": score for key, score in pixels.items()}
    rows = [{"body": "pixels", "seed": 0, **pixels, **flat}]
    for seed in range(3):
        found = sheet.once(f"fresh {seed}", worth, fresh(seed), digits, held_out)
        rows.append({"body": "fresh weights", "seed": seed, **found})
    answers = []
    for name in checkpoints:
        learned = load_checkpoint(name)
        about = learned.provenance
        objective, seed = about["recipe"]["objective"], about["seed"]
        found = sheet.once(Path(name).stem, worth, learned.model, digits, held_out)
        learner = learner_of(learned, WAYS[OF_OBJECTIVE[objective]], seed)
        rows.append({"body": objective, "seed": seed, **found})
        said = sheet.once(f"{Path(name).stem} said", beside_places, learner, held_out)
        answers.append({"body": objective, "seed": seed, **said})
    settings = {
        "features": "mean of the patch tokens after the last norm; flat: the tokens side by side, "
        "of the pixels the same as else",
        "ridge": f"accuracy after {SHOTS} digits a class, mean of five draws",
        "nearest": "share of held-out digits whose nearest other one has their label",
    }
    sheet.write("digits", settings, rows)
    told_of = {
        "loss, found": "of the answers at 512 hidden tokens of 64 held-out digits",
        "place_loss, place_found": "of one answer for each place, the best for these very labels; "
        "a copy that follows is not kept, and the body at the end makes its labels here",
    }
    sheet.write("digits", told_of, answers, "beside_places")
