"""What the chapter on self-supervision measures: collapses, and what frozen bodies are worth."""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import nn

from vitbook import analysis, datasets, runs
from vitbook.analysis.capture.outputs import outputs_of
from vitbook.blocks import list_blocks
from vitbook.datasets import Dataset
from vitbook.models import create_model
from vitbook.runs import Recipe, Result, get_recipe
from vitbook.runs.measuring import Sheet, measurement
from vitbook.studies.self_supervision.slow_copy import BYOL, DINO
from vitbook.studies.self_supervision.two_views import TwoViews
from vitbook.training import AtScale, load_checkpoint
from vitbook.training.engine.batches import Batches
from vitbook.training.objectives.readings import mean_tokens, nearest_other, side_by_side, spread
from vitbook.training.transfer.few_shot import few_shot_curve

BODY = "vit_micro_patch2_8"
SHOTS = (1, 2, 5, 10, 20)
TRACED = (1, *range(10, 221, 10))  # of a short training, which are kept
WAYS = {
    "DINO": lambda body: DINO(body),
    "DINO, not centered": lambda body: DINO(body, centered=False),
    "DINO, not sharpened": lambda body: DINO(body, sharp=False),
    "BYOL": lambda body: BYOL(body),
    "BYOL, no predictor": lambda body: BYOL(body, predictor=False),
}
TASKS = {
    "masked colours": "masked_patches", "masked pixels (MAE)": "mae", "next pixels": "next_pixels",
    "BYOL": "byol", "DINO": "dino", "SimCLR": "simclr",
}  # fmt: skip


def fresh(seed: int, name: str = BODY) -> nn.Module:
    torch.manual_seed(seed)
    return create_model(name)


def learned(objective: str, **changes: object) -> list[Result]:
    """The runs that learned this task on digits, by seed."""
    wanted = get_recipe("digits", label_smoothing=0.0, objective=objective, **changes)
    rows = runs.read(dataset="digits", unlabeled=True)
    found = [row for row in rows if row.share == 1 and Recipe(**row.recipe) == wanted]
    return sorted(found, key=lambda row: row.seed)


def bodies() -> dict[str, list[nn.Module]]:
    """Bodies by what they learned on 1,442 digits, seeds 0 to 2."""
    asked = {task: learned(objective) for task, objective in TASKS.items()}
    named = [f"digits-{BODY}-digits-seed{seed}" for seed in range(3)]
    return {
        "fresh weights": [fresh(seed) for seed in range(3)],
        **{
            task: [load_checkpoint(row.name).model for row in rows]
            for task, rows in asked.items()
            if rows
        },
        "all labels": [load_checkpoint(name).model for name in named],
    }


def trace(make, seed: int, digits: Dataset, steps: int = TRACED[-1]) -> dict[str, list[float]]:
    """Loss and spread at some steps of a short training of two views, 32 images a step."""
    learner: TwoViews = make(fresh(seed)).train()
    recipe = get_recipe("digits", label_smoothing=0.0, objective="dino", batch_size=32)
    batches = Batches(digits, recipe, seed, torch.device("cpu"))
    weights = [weight for weight in learner.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=1e-3, weight_decay=0.05)
    found: dict[str, list[float]] = {"loss": [], "spread": []}
    for step in range(steps):
        seen = learner(batches[step][0], batches.second_view(step))
        optimizer.zero_grad()
        seen.loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        if step + 1 in TRACED:
            found["loss"].append(round(seen.loss.item(), 4))
            found["spread"].append(round(spread(seen.projections), 4))
    return found


@measurement(
    collapse={"way": "{way}", "seed": "{seed}", "loss": "{end:.3f}", "spread": "{spread_end:.3f}"}
)
def collapse(sheet: Sheet) -> None:
    """Follow loss and spread of two-view tasks, with and without what keeps them from collapse."""
    sheet.expect("digits")
    digits, rows = datasets.load("digits", "train"), []
    for way, make in WAYS.items():
        for seed in range(3):
            found = sheet.once(f"{way} {seed}", trace, make, seed, digits)
            rows.append({"way": way, "seed": seed, "end": found["loss"][-1],
                         "spread_end": found["spread"][-1], **found})  # fmt: skip
    settings = {
        "steps": "220 of 32 digits, AdamW 1e-3, both views changed as the recipe of digits says",
        "loss, spread": "at steps 1, 10, 20 ... 220, before their updates; of BYOL's projections, "
        "DINO's answers",
    }
    sheet.write("digits", settings, rows)


def worth(body: nn.Module, digits: Dataset, held_out: Dataset) -> dict:
    """Of a frozen body: its neighbours, and what ridge reads at its end and behind each block.

    At its end twice: of the mean of the patch tokens, and of the tokens side by side.
    """
    found = read_twice(body, digits, held_out)
    blocks = list_blocks(body)
    tokens = [
        outputs_of(body, datasets.normalize(each.images), blocks, lambda _, out: out.mean(1))
        for each in (digits, held_out)
    ]
    found["blocks"] = [ridge(*(each[block] for each in tokens), digits, held_out, (20,))[0]
                       for block in blocks]  # fmt: skip
    if body.grid_size == (4, 4):  # of pixels in a row, the next one is not beside the last
        even = analysis.uniform_attention_distance(body.grid_size, body.patch_size)
        far = analysis.mean_attention_distance(body, datasets.normalize(held_out.images)) / even
        found["distance"] = [round(each, 4) for each in far.mean(1).tolist()]
    return found


def read_twice(body: nn.Module, seen: Dataset, new: Dataset) -> dict:
    """Ridge and neighbours of a frozen body: by the mean token, and by all side by side."""
    mean, flat = (
        of_features(*(read(body, each.images).cpu() for each in (seen, new)), seen, new)
        for read in (mean_tokens, side_by_side)
    )
    return mean | {f"{key}_flat": score for key, score in flat.items()}


def read_pixels(seen: Dataset, new: Dataset) -> dict:
    """The same of the pixels, which stand side by side as they are."""
    pixels = (F.normalize(each.images.flatten(1) / 255) for each in (seen, new))
    found = of_features(*pixels, seen, new)
    return found | {f"{key}_flat": score for key, score in found.items()}


def first_images(found: AtScale, most: int = 2000) -> tuple[Dataset, Dataset]:
    """Images that frozen bodies are read with, and held-out ones: all, or the first of many."""
    both = (found.dataset("train"), found.dataset())
    seen, new = (
        replace(each, images=each.images[:most], labels=each.labels[:most]) for each in both
    )
    return seen, new


def read_all_bodies(found: AtScale) -> dict[str, list[dict]]:
    """Pixels, fresh weights and each role -> what is read of each seed."""
    seen, new = first_images(found)
    name = next(iter(found.planned.values()))[0].model
    unlearned = [fresh(seed, name).to(found.device) for seed in found.seeds]
    trained = {role: [found.model(role, seed) for seed in found.seeds] for role in found.planned}
    return {"pixels": [read_pixels(seen, new)]} | {
        body: [read_twice(model, seen, new) for model in models]
        for body, models in ({"fresh weights": unlearned} | trained).items()
    }


def of_features(train_features, test_features, digits: Dataset, held_out: Dataset) -> dict:
    return {
        "ridge": ridge(train_features, test_features, digits, held_out, SHOTS),
        "nearest": round(nearest_other(test_features, held_out.labels), 4),
    }


def ridge(train_features, test_features, digits: Dataset, held_out: Dataset, shots) -> list[float]:
    scores = few_shot_curve(train_features, digits.labels, test_features, held_out.labels, shots,
                            readers=("ridge",))  # fmt: skip
    return [round(score.accuracy[0], 4) for score in scores]


@measurement(worth={"body": "{body}", "seed": "{seed}", "nearest other": "{nearest:.3f}"})
def label_free(sheet: Sheet) -> None:
    """Say what frozen bodies that learned digits without labels are worth, beside three controls.

    The controls are fresh weights, the pixels, and bodies that learned all labels.
    """
    sheet.expect("digits")
    digits, held_out = (datasets.load("digits", split) for split in ("train", "test"))
    lacking: dict[str, list] = {"blocks": [], "distance": []}
    rows = [{"body": "pixels", "seed": 0, **lacking, **read_pixels(digits, held_out)}]
    for name, three in bodies().items():
        for seed, body in enumerate(three):
            found = sheet.once(f"{name} {seed}", worth, body, digits, held_out)
            rows.append({"body": name, "seed": seed, **lacking, **found})
    settings = {
        "features": "mean of the patch tokens after the last norm, or of all tokens behind a block",
        "flat": "the patch tokens after the last norm side by side; of the pixels the same as else",
        "ridge": f"accuracy after {', '.join(map(str, SHOTS))} digits a class, mean of five draws",
        "blocks": "the same after 20 digits a class, behind each block",
        "nearest": "share of held-out digits whose nearest other one has their label",
        "distance": "mean of the heads of each layer on held-out digits, even attention = 1",
    }
    sheet.write("digits", settings, rows)
