"""Does a head that has learned first spare the body? Kumar et al. 2022 ("LP-FT"), with digits."""

from dataclasses import replace
from typing import Annotated

import torch
import torch.nn.functional as F
import typer
from jaxtyping import Float
from torch import Tensor, nn

from vitbook import datasets
from vitbook.runs import get_recipe
from vitbook.runs.measuring import Sheet, measurement
from vitbook.training import evaluate, load_checkpoint, start_from, train

BODY = "vit_micro_patch2_8"
SHARE, EPOCHS, BATCH = 0.035, 12, 25
HEAD_RATE, RATES = 1e-2, (3e-4, 1e-3, 3e-3, 1e-2)  # the rates are of the body

# Way -> its stages, each (share of the epochs, changes of the recipe); None is the body's rate.
WAYS = {
    "head alone": [(1, {"learning_rate": HEAD_RATE, "train_from": "head"})],
    "all at once": [(1, {"learning_rate": None})],
    "fast head": [(1, {"learning_rate": None, "head_learning_rate": HEAD_RATE})],
    "head first": [
        (0.5, {"learning_rate": HEAD_RATE, "train_from": "head"}),
        (0.5, {"learning_rate": None}),
    ],
}


def odd_or_even(digits: datasets.Dataset) -> datasets.Dataset:
    """The same images, labelled 0 for an even digit and 1 for an odd one."""
    return replace(digits, labels=digits.labels % 2, class_names=("even", "odd"))


def shifted(digits: datasets.Dataset, right: int) -> datasets.Dataset:
    """Images one pixel further right (1) or left (-1); zero comes in."""
    padded = F.pad(digits.images, (1, 1))
    side = digits.images.shape[3]
    return replace(digits, images=padded[..., 1 - right : 1 - right + side])


def tuned(way: str, rate: float, draw: int, device: str | torch.device | None = None) -> nn.Module:
    """A digits model after :data:`EPOCHS` epochs on 50 digits that ``draw`` chose."""
    learn = odd_or_even(datasets.take_share(datasets.load("digits", "train"), SHARE, seed=draw))
    torch.manual_seed(draw)
    model = start_from(_start(draw), BODY, image_size=8, num_classes=2, channels=1)
    for share, changes in WAYS[way]:
        asked = {key: rate if value is None else value for key, value in changes.items()}
        recipe = get_recipe(
            "digits", epochs=int(share * EPOCHS), batch_size=BATCH, warmup_epochs=1, **asked
        )
        train(model, learn, recipe, seed=draw, progress=False, device=device)
    return model.eval()


def _start(draw: int) -> str:
    return f"digits-{BODY}-digits-seed{draw % 3}"


@torch.no_grad()
def features(model: nn.Module, digits: datasets.Dataset) -> Float[Tensor, "n width"]:
    """What the head reads."""
    read = []
    hook = model.head.classifier.register_forward_pre_hook(lambda _, given: read.append(given[0]))
    model(datasets.normalize(digits.images.to(next(model.parameters()).device)))
    hook.remove()
    return read[0].cpu()


@measurement(
    head_first=lambda rows: [
        {
            "way": row["way"], "rate of the body": f"{row['rate']:g}",
            "as they are": mean_of(row["as_they_are"]), "shifted": mean_of(row["shifted"]),
            "features changed": f"{row['changed']:.2f}",
        }
        for row in rows
    ]
)  # fmt: skip
def head_first(
    sheet: Sheet,
    draws: Annotated[int, typer.Option(min=1, help="Of 50 digits, and of a body.")] = 8,
) -> None:
    """Tune digits models on "odd or even", all at once or the head first, in equal steps.

    Digits shifted by a pixel, which no model learned from, are asked at the end.
    """
    sheet.expect("digits")
    test = odd_or_even(datasets.load("digits", "test"))
    sides = [shifted(test, right) for right in (-1, 1)]

    def asked(way: str, rate: float, draw: int) -> list[float]:
        model = tuned(way, rate, draw, sheet.device)
        before = load_checkpoint(_start(draw)).model.eval()
        first, now = features(before, test), features(model, test)
        change = (now - first).pow(2).sum() / (first - first.mean(0)).pow(2).sum()
        both = [100 * evaluate(model, side) for side in sides]
        return [100 * evaluate(model, test), sum(both) / 2, change.item()]

    rows = []
    for way in WAYS:
        for rate in RATES if way != "head alone" else (0.0,):
            found = [sheet.once(f"{way} {rate} {draw}", asked, way, rate, draw)
                     for draw in range(draws)]  # fmt: skip
            still, aside, changes = zip(*found, strict=True)
            rows.append({
                "way": way, "rate": rate, "as_they_are": [round(each, 3) for each in still],
                "shifted": [round(each, 3) for each in aside],
                "changed": round(sum(changes) / draws, 4),
            })  # fmt: skip
    images = len(datasets.take_share(datasets.load("digits", "train"), SHARE))
    settings = {
        "task": "odd or even, a new head of two classes", "start": f"digits-{BODY}-digits, 3 seeds",
        "training_images": images, "test_images": len(test), "epochs": EPOCHS,
        "steps": EPOCHS * (images // BATCH), "head_rate": HEAD_RATE, "draws": draws,
        "shifted": "one pixel left and one right, the mean of both; zero comes in",
        "changed": "squared change of what the head reads, of test digits as they are, in units of "
        "its variance before tuning",
    }  # fmt: skip
    sheet.write("digits", settings, rows)


def mean_of(shares: list[float]) -> str:
    return f"{sum(shares) / len(shares):.1f} %"
