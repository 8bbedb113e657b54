"""What a frozen pretrained body knows of a data set."""

from collections.abc import Callable
from typing import Annotated

import typer
from torch import Tensor

from vitbook import datasets
from vitbook.blocks import LAST
from vitbook.files import check_file_writable
from vitbook.models.weights.linear_heads import LinearHead, save_head
from vitbook.models.weights.pretrained import load_pretrained
from vitbook.runs.measuring import Sheet, measurement
from vitbook.training.asked import DataName, ImageSize, Layer, Seed, Share, stem
from vitbook.training.transfer.frozen_readers import (
    CONTROLS,
    checked_size,
    frozen_readers,
    layer_read,
)
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
    layer: Layer = LAST,
    share: Share = 1.0,
    seed: Seed = 0,
) -> None:
    """Fit a linear layer on frozen tokens, beside the same on fresh weights and on pixels.

    The layer is kept beside the measurement, as a head of the body; not where --layer reads an
    earlier block, behind which the body has no head. A held-out tenth of the training images
    chooses its penalty.
    """
    subject = f"{stem(model)}-{dataset}" + f"-{layer}" * (layer != LAST)
    sheet.expect(subject)
    file = sheet.folder / f"{subject}.safetensors"
    if layer == LAST:
        check_file_writable(file)
    split = datasets.held_out_split(dataset)
    train = datasets.take_share(datasets.load(dataset, "train"), share)
    test = datasets.load(dataset, split)
    check_labels(train.labels, train.num_classes)
    loaded = load_pretrained(model, image_size=image_size)
    size = checked_size(model, loaded.model, train, needs_class_token=True)
    path, read = layer_read(loaded.model, layer)
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
        if name == "pretrained" and layer == LAST:
            about = same | {"body": model} | told
            head = LinearHead(found.weight, found.bias, train.class_names, size, about)
            print(f"wrote {save_head(file, head)}")
        return {
            "features": name,
            "recall": _recall(logits, test.labels, test.num_classes),
            "strength": found.strength,
            "tried": {f"{strength:g}": score for strength, score in found.tried.items()},
        } | told

    given = loaded.model, loaded.normalize, size, sheet.device, sheet.folder
    rows = [
        sheet.once(f"{name} {same['weights']}", row, name, features)
        for name, features in frozen_readers(*given, layer=path).items()
    ]
    settings = same | CONTROLS | {
        "split": split, "image_size": size, "share": share, "test_images": len(test),
        "layer": path, "features": read,
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
