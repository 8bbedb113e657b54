"""Does a head that has learned first spare the body? Kumar et al. 2022 ("LP-FT"), with digits."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated

import torch
import torch.nn.functional as F
import typer
from jaxtyping import Float
from torch import Tensor, nn

from vitbook import datasets
from vitbook.runs import get_recipe
from vitbook.runs.measuring import Sheet, measurement
from vitbook.training import AtScale, at_scale, evaluate, start_from, train

BODY = "vit_micro_patch2_8"
SHARE, DIGITS = 0.035, 1_442  # 50 of so many digits; as many of other images
EPOCHS, BATCH = 12, 25
Asked = Callable[[str, float, int], list[float]]
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


@dataclass(frozen=True)
class Task:
    """Bodies that learned images, and the new question: is the number of the class odd or even?

    Attributes:
        found: the bodies, in its role "body".
        seen: training images with their own labels, of which 50 are learned from.
        test: held-out images with the new ones, the first 2,000 of many.
    """

    found: AtScale
    seen: datasets.Dataset
    test: datasets.Dataset

    @classmethod
    def of(cls, found: AtScale) -> "Task":
        test = found.dataset()
        test = replace(test, images=test.images[:2000], labels=test.labels[:2000])
        return cls(found, found.dataset("train"), odd_or_even(test))

    def learn(self, draw: int) -> datasets.Dataset:
        """50 training images that ``draw`` chose."""
        share = SHARE * DIGITS / len(self.seen)
        return odd_or_even(datasets.take_share(self.seen, share, seed=draw))

    def start(self, draw: int) -> nn.Module:
        """A body, one seed after the other, with a head of zeros."""
        seeds, row = self.found.seeds, self.found.rows("body")[0]
        kept = self.found.weights("body", seeds[draw % len(seeds)])
        _, channels, size, _ = self.seen.images.shape
        return start_from(kept, row.model, image_size=size, num_classes=2, channels=channels)

    def tuned(self, way: str, rate: float, draw: int, device: str | torch.device) -> nn.Module:
        """The body after :data:`EPOCHS` epochs of the images of a draw."""
        torch.manual_seed(draw)
        model = self.start(draw)
        for share, changes in WAYS[way]:
            asked = {key: rate if value is None else value for key, value in changes.items()}
            recipe = get_recipe(
                self.found.experiment.runs[0].recipe.name, epochs=int(share * EPOCHS),
                batch_size=BATCH, warmup_epochs=1, ema=0.0, **asked,
            )  # fmt: skip
            train(model, self.learn(draw), recipe, seed=draw, progress=False, device=device)
        return model.eval()

    def asked(self, way: str, rate: float, draw: int, device: str | torch.device) -> list[float]:
        """Accuracy in % as the images are and shifted by a pixel, and how far features moved."""
        model, before = self.tuned(way, rate, draw, device), self.start(draw).eval()
        first, now = features(before, self.test), features(model, self.test)
        change = (now - first).pow(2).sum() / (first - first.mean(0)).pow(2).sum()
        both = [100 * evaluate(model, shifted(self.test, right)) for right in (-1, 1)]
        return [100 * evaluate(model, self.test), sum(both) / 2, change.item()]

    def rows(self, draws: int, asked: Asked) -> list[dict]:
        """A row for each way and rate.

        Args:
            asked: :meth:`asked` of a way, a rate and a draw, or what is kept of it.
        """
        rows = []
        for way in WAYS:
            for rate in RATES if way != "head alone" else (0.0,):
                found = [asked(way, rate, draw) for draw in range(draws)]
                still, aside, changes = zip(*found, strict=True)
                rows.append({
                    "way": way, "rate": rate, "as_they_are": [round(each, 3) for each in still],
                    "shifted": [round(each, 3) for each in aside],
                    "changed": round(sum(changes) / draws, 4),
                })  # fmt: skip
        return rows


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
    task = Task.of(at_scale("odd_or_even"))

    def asked(way: str, rate: float, draw: int) -> list[float]:
        return sheet.once(f"{way} {rate} {draw}", task.asked, way, rate, draw, sheet.device)

    rows, images = task.rows(draws, asked), len(task.learn(0))
    settings = {
        "task": "odd or even, a new head of two classes", "start": f"digits-{BODY}-digits, 3 seeds",
        "training_images": images, "test_images": len(task.test), "epochs": EPOCHS,
        "steps": EPOCHS * (images // BATCH), "head_rate": HEAD_RATE, "draws": draws,
        "shifted": "one pixel left and one right, the mean of both; zero comes in",
        "changed": "squared change of what the head reads, of test digits as they are, in units of "
        "its variance before tuning",
    }  # fmt: skip
    sheet.write("digits", settings, rows)


def mean_of(shares: list[float]) -> str:
    return f"{sum(shares) / len(shares):.1f} %"
