"""Images whose labels mean what the logits of a head mean."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from vitbook import datasets
from vitbook.errors import first_few
from vitbook.layers import ClassAndMeanHead
from vitbook.models.weights.pretrained import Pretrained

# Held-out images of which the chapter asks, the side that its model sees, and ten classes of 200 of
# which no two look alike.
DATASET, SIZE = "tiny_imagenet", 224
SUBJECT = f"vit_small_patch14_focus-{DATASET}"
CLASSES = ("tabby", "espresso", "obelisk", "monarch", "goldfish", "trolleybus", "sports car",
           "banana", "pizza", "beacon")  # fmt: skip


def among(loaded: Pretrained, names: Sequence[str]) -> Pretrained:
    """The same model, which now has these classes alone to choose from: those rows of its head."""
    rows = [loaded.class_names.index(name) for name in names]
    given = loaded.model.head.classifier
    loaded.model.head = ClassAndMeanHead(given.in_features // 2, len(rows))
    with torch.no_grad():
        loaded.model.head.classifier.weight.copy_(given.weight[rows])
        loaded.model.head.classifier.bias.copy_(given.bias[rows])
    return replace(loaded, model=loaded.model.eval(), class_names=tuple(names))


def check_classes(loaded: Pretrained, dataset: datasets.Dataset) -> None:
    """Refuse images whose labels mean something else than a head's logits.

    Raises:
        ValueError: they do.
    """
    if loaded.class_names != dataset.class_names:
        told, given = (
            f"{len(names)} classes ({first_few(names, 3)})"
            for names in (loaded.class_names, dataset.class_names)
        )
        raise ValueError(
            f"the head on {loaded.name} tells apart {told}; {dataset.provenance['name']} has "
            f"{given}: fit a head on it with `vitbook measure linear-probe`, or take other data"
        )
