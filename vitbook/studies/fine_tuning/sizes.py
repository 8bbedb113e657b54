"""Three sizes of one pretrained family: what each costs, and what it gives on another task."""

from typing import Annotated

import torch
import typer
from torch import nn

from vitbook import datasets
from vitbook.colors import recoloring
from vitbook.datasets.share import rows_of_share, take_share
from vitbook.measure import count_macs, count_parameters, interleaved_seconds, ratio_of
from vitbook.models.weights.efficientnet_lite import LITES, efficientnet_lite
from vitbook.models.weights.pretrained import weights_folder
from vitbook.runs import get_recipe
from vitbook.runs.measuring import Sheet, measurement
from vitbook.studies.fine_tuning.scores import FOLDS, in_folds, right_share
from vitbook.training import evaluate, train
from vitbook.training.asked import DataName, Share
from vitbook.training.transfer.frozen_readers import kept_features
from vitbook.training.transfer.ridge import RidgePath

SEEDS = range(3)
# ImageNet's validation images, by TensorFlow's own weights (Tan 2020, the family's readme).
PRINTED = {"efficientnet_lite0": 75.1, "efficientnet_lite1": 76.7, "efficientnet_lite2": 77.6}
FRESH = "fresh efficientnet_lite0"


def lite(name: str, num_classes: int) -> nn.Module:
    """The network of that name, or a fresh one by torch's seed, with a head of zeros."""
    fresh = name == FRESH
    model = efficientnet_lite(name.removeprefix("fresh "), None if fresh else weights_folder())
    model.reset_classifier(num_classes)
    nn.init.zeros_(model.classifier.weight)
    nn.init.zeros_(model.classifier.bias)
    return model


def _shown(rows: list[dict]) -> list[dict[str, str]]:
    def told(scores: list[float]) -> str:
        return " ".join(f"{score:.1%}" for score in scores)

    return [
        {
            "network": row["model"],
            "parameters": f"{row['parameters'] / 1e6:.2f} M",
            "MACs": f"{row['macs'] / 1e6:.0f} M",
            "speed": f"{row['speed'][0]:.2f}",
            "frozen": told(row["frozen"]),
            "tuned": told(row["tuned"]),
        }
        for row in rows
    ]


@measurement(pretrained_sizes=_shown)
def pretrained_sizes(
    sheet: Sheet,
    dataset: DataName,
    image_size: Annotated[int, typer.Option(min=32, help="That all networks are given.")] = 112,
    share: Share = 0.25,
    test_share: Annotated[float, typer.Option(help="Of each class's held-out images.")] = 1.0,
    epochs: Annotated[int, typer.Option(min=1, help="Of fine-tuning.")] = 4,
    rate: Annotated[float, typer.Option(help="Learning rate of the body.")] = 5e-4,
) -> None:
    """Read and fine-tune EfficientNet-Lite 0, 1 and 2 on three draws of a few images each."""
    sheet.expect(dataset)
    whole = datasets.load(dataset, "train", image_size=image_size)
    test = datasets.load(dataset, datasets.held_out_split(dataset), image_size=image_size)
    test = take_share(test, test_share)
    recipe = get_recipe(
        "fine_tuning", image_size=image_size, batch_size=16, epochs=epochs, learning_rate=rate
    )

    def frozen(name: str) -> list[float]:
        torch.manual_seed(0)
        model = lite(name, whole.num_classes).to(sheet.device)
        own = recoloring(model)
        read = kept_features(
            model, lambda images: own(datasets.normalize(images)), image_size, sheet.folder, name
        )
        drawn = [rows_of_share(whole, share, seed) for seed in SEEDS]
        asked = torch.cat(drawn).unique()
        seen, held_out = read(whole.images[asked]), read(test.images)
        scores = []
        for rows in drawn:
            some, labels = seen[torch.searchsorted(asked, rows)], whole.labels[rows]
            path = RidgePath(some, labels, whole.num_classes)
            answers = path.best(in_folds(labels, whole.num_classes)).logits(held_out)
            scores.append(right_share(answers.argmax(1), test.labels))
        return scores

    def tuned(name: str, seed: int) -> float:
        torch.manual_seed(seed)
        model = lite(name, whole.num_classes)
        train(model, take_share(whole, share, seed), recipe, seed=seed, device=sheet.device)
        return evaluate(model, test)

    names = [*LITES, FRESH]
    speeds = sheet.once("speed", _speeds, image_size)
    rows = []
    for name in names:
        body = lite(name, whole.num_classes)
        rows.append(
            {
                "model": name,
                "printed": PRINTED.get(name),
                "parameters": count_parameters(body),
                "macs": count_macs(body, torch.zeros(1, 3, image_size, image_size)),
                "speed": speeds[name.removeprefix("fresh ")],
                "frozen": sheet.once(f"frozen {name}", frozen, name),
                "tuned": [sheet.once(f"tuned {name} {seed}", tuned, name, seed) for seed in SEEDS],
            }
        )
    settings = {
        "dataset": whole.provenance["name"], "image_size": image_size, "share": share,
        "training_images": len(rows_of_share(whole, share)), "test_images": len(test),
        "frozen": f"ridge on what the head is given, penalty chosen in {FOLDS} folds",
        "tuned": f"whole, head from zeros, {epochs} epochs, rates {rate:g} and "
        f"{recipe.head_learning_rate:g} (head), batches of 16",
        "seeds": "0, 1, 2: of the images drawn, and of the training",
        "speed": "forward of 16 images, times that of efficientnet_lite0, 95 %",
        "printed": "top-1 of ImageNet by TensorFlow's weights, Tan 2020",
    }  # fmt: skip
    sheet.write(dataset, settings, rows)


@torch.no_grad()
def _speeds(image_size: int) -> dict[str, tuple[float, float, float]]:
    images = torch.zeros(16, 3, image_size, image_size)
    bodies = [efficientnet_lite(name, None) for name in LITES]
    seconds = interleaved_seconds([lambda body=body: body(images) for body in bodies])
    ratios = [ratio_of(seconds[0], own) for own in seconds]
    return {n: (r.median, r.low, r.high) for n, r in zip(LITES, ratios, strict=True)}
