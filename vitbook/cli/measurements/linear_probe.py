"""What a frozen pretrained body knows of a data set."""

from collections.abc import Callable
from typing import Annotated

import typer
from torch import Tensor

from vitbook import datasets
from vitbook.files import check_file_writable
from vitbook.models.weights.linear_heads import LinearHead, save_head
from vitbook.models.weights.pretrained import load_pretrained
from vitbook.runs.measuring import Sheet, measurement
from vitbook.training.asked import DataName, ImageSize, Seed, Share, stem
from vitbook.training.transfer.frozen_readers import CONTROLS, READ, checked_size, frozen_readers
from vitbook.training.transfer.linear_probe import (
    HELD_OUT,
    accuracy_interval,
    check_labels,
    fit_linear_probe,
)


@measurement(linear_probe={"features": "{features}", "accuracy": "{accuracy:.2%}"})
def linear_probe(
    sheet: Sheet,
    dataset: DataName,
    model: Annotated[
        str, typer.Option(help="A name from `vitbook weights list`, or one of timm's.")
    ] = "vit_small_patch14_focus",
    image_size: ImageSize = None,
    share: Share = 1.0,
    seed: Seed = 0,
) -> None:
    """Fit a linear layer on frozen tokens, beside the same on fresh weights and on pixels.

    The layer is kept beside the measurement, as a head of the body. A held-out tenth of the
    training images chooses its penalty.
    """
    subject = f"{stem(model)}-{dataset}"
    sheet.expect(subject)
    path = sheet.folder / f"{subject}.safetensors"
    check_file_writable(path)
    split = datasets.held_out_split(dataset)
    train = datasets.take_share(datasets.load(dataset, "train"), share)
    test = datasets.load(dataset, split)
    check_labels(train.labels, train.num_classes)
    loaded = load_pretrained(model, image_size=image_size)
    size = checked_size(model, loaded.model, train, needs_class_token=True)
    same = {
        "dataset": train.provenance["name"],
        "training_images": len(train),
        "weights": loaded.provenance["digest"],
    }

    def row(name: str, features: Callable[[Tensor], Tensor]) -> dict:
        found = fit_linear_probe(features(train.images), train.labels, seed, train.num_classes)
        logits = found.logits(features(test.images))
        told = {
            "accuracy": accuracy_interval(logits, test.labels),
            "recall_in_training": [round(each, 4) for each in found.recall],
        }
        if name == "pretrained":
            about = same | {"body": model} | told
            head = LinearHead(found.weight, found.bias, train.class_names, size, about)
            print(f"wrote {save_head(path, head)}")
        return {
            "features": name,
            "recall": _recall(logits, test.labels, test.num_classes),
            "strength": found.strength,
            "tried": {f"{strength:g}": score for strength, score in found.tried.items()},
        } | told

    readers = frozen_readers(loaded.model, loaded.normalize, size, sheet.device, sheet.folder)
    rows = [
        sheet.once(f"{name} {same['weights']}", row, name, features)
        for name, features in readers.items()
    ]
    settings = same | CONTROLS | {
        "split": split, "image_size": size, "share": share, "test_images": len(test),
        "features": READ,
        "fit": f"logistic regression, penalty chosen on {HELD_OUT:.0%} of the training images",
        "seed": seed, "interval": "Wilson, 95 %",
    }  # fmt: skip
    sheet.write(subject, settings, rows)


def _recall(logits: Tensor, labels: Tensor, num_classes: int) -> list[float | None]:
    """Share of each class's images that are right; None of a class without one."""
    right = (logits.argmax(dim=1) == labels).float()
    return [
        round(right[labels == each].mean().item(), 4) if (labels == each).any() else None
        for each in range(num_classes)
    ]
