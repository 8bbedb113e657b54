"""Do explanations of a pretrained model find the right one of four images?"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

import torch
import typer
from torch import Tensor

from vitbook import datasets
from vitbook.layers import ClassAndMeanHead
from vitbook.models.catalog import fresh_twin
from vitbook.models.weights.pretrained import load_pretrained
from vitbook.runs.measuring import Sheet, measurement
from vitbook.studies.interventions.classes import check_classes
from vitbook.studies.interventions.quarters import make_collages
from vitbook.studies.interventions.questions import (
    COLLAGE_EXPLANATIONS,
    collage_rows,
    explain_collages,
    quarter_drops,
)
from vitbook.training.asked import HeadedData, Seed, Share, stem
from vitbook.training.transfer.frozen_readers import kept_features
from vitbook.training.transfer.linear_probe import (
    LinearProbe,
    accuracy_interval,
    check_labels,
    fit_linear_probe,
)

# Right so often among the classes that are asked about, by folds of the training data.
RIGHT = 0.9
FEWEST, MOST = 4, 16
SCORES = ("pointing", "energy")
# The quarter without which the logit falls furthest.
LARGEST_DROP = "largest drop of a quarter"
# Explanations that a few passes make: again for a twin of fresh weights, and for heads that read a
# part of the tokens. From the last norm on a head that reads the class token sees no patch.
QUICK = ("relevance", "Grad-CAM", "Grad-CAM, tool's layer")
PARTS = {"class token": QUICK, "mean of patches": ("CAM", *QUICK)}


@measurement(
    needs=("chapters", "captum"),
    collages={"explanation": "{name}", "the head reads": "{reads}"}
    | {score: f"{{{score}:.3f}}" for score in SCORES},
)
def collages(
    sheet: Sheet,
    dataset: HeadedData = "tiny_imagenet",
    number: Annotated[int, typer.Option("--collages", min=2, help="Of four images each.")] = 40,
    model: Annotated[
        str, typer.Option(help="A name from `vitbook weights list`.")
    ] = "vit_small_patch14_focus",
    share: Share = 0.2,
    seed: Seed = 0,
) -> None:
    """Ask explanations of a pretrained ViT where in a collage of four images each class lies."""
    subject = f"{stem(model)}-{dataset}"
    sheet.expect(subject)
    place = sheet.device
    headed = load_pretrained(model, head=dataset)
    size = headed.model.spec.image_size
    reader = load_pretrained(model, image_size=size)
    features = partial(kept_features, reader.model.to(place), reader.normalize, size, sheet.folder)
    split = datasets.held_out_split(dataset)
    train = datasets.take_share(datasets.load(dataset, "train"), share)
    test = datasets.load(dataset, split)
    check_classes(headed, test)
    check_labels(train.labels, train.num_classes)
    if 4 * number > len(test):
        raise ValueError(
            f"{number} collages of four images: {dataset}, {split} has {len(test)}; ask for fewer"
        )
    known = features("training images")(train.images)
    recall = torch.tensor(headed.provenance["head"]["recall_in_training"])
    kept, found = known_classes(known, train.labels, recall, seed)
    asked = _only(test, kept)
    held_out = features("held-out images")(asked.images)
    made = make_collages(asked.images, asked.labels, number, image_size=2 * size, seed=seed)
    body = load_pretrained(model, image_size=2 * size)
    game = _Game(body.normalize(made.images).to(place), made.labels.to(place), made.masks)
    explained = _with_head(body.model, found).to(place)
    drops = quarter_drops(explained, game.images, game.labels).cpu()
    rows = game.rows(explained, "both", COLLAGE_EXPLANATIONS)
    fresh = _with_head(fresh_twin(body.model), found).to(place)
    rows += game.rows(fresh, "both, untrained twin", PARTS["mean of patches"])
    accuracy = {"both": accuracy_interval(found.logits(held_out), asked.labels)}
    inside = torch.isin(train.labels, kept)
    for part, names in PARTS.items():
        gone = _columns(known.shape[1], part)
        labels = _renumbered(train.labels[inside], kept)
        of_part = fit_linear_probe(known[inside].masked_fill(gone, 0), labels, seed)
        accuracy[part] = accuracy_interval(of_part.logits(held_out), asked.labels)
        rows += game.rows(_with_head(explained, of_part).to(place), part, names)
    right = torch.eye(4, dtype=torch.bool)
    settings = {
        "dataset": train.provenance["name"], "split": split, "collages": number,
        "quarters": 4, "image_size": 2 * size, "seed": seed,
        "classes": [test.class_names[each] for each in kept.tolist()],
        "chosen": f"the most classes, best recall in training first, on which a head for them "
        f"alone is right on {RIGHT:.0%} of the training images by folds",
        "recall_in_training": round(sum(found.recall) / len(found.recall), 4),
        "accuracy": accuracy, "held_out_images": len(asked),
        "training_images": int(inside.sum()),
        "logit_drop_of_right_quarter": round(drops[:, right].mean().item(), 4),
        "logit_drop_of_other_quarters": round(drops[:, ~right].mean().item(), 4),
        "removed": "to the mean colour", "interval": "bootstrap over collages, 95 %",
        "twin": "body of fresh weights, seed 0, under the trained head",
        "parts": "heads fitted anew on one half of the features, the other set to 0",
        "weights": headed.provenance["digest"],
    }  # fmt: skip
    sheet.write(subject, settings, rows)


def known_classes(
    features: Tensor, labels: Tensor, recall: Tensor, seed: int = 0
) -> tuple[Tensor, LinearProbe]:
    """The most classes on which a head of their own is right nine times in ten, and that head.

    They are taken in order of ``recall`` under the head of all classes. Training data alone
    decides.

    Raises:
        ValueError: not even four classes are known so well.
    """
    order = recall.argsort(descending=True, stable=True)
    for number in range(min(MOST, len(order)), FEWEST - 1, -1):
        kept = order[:number]
        rows = torch.isin(labels, kept)
        found = fit_linear_probe(features[rows], _renumbered(labels[rows], kept), seed)
        if sum(found.recall) / number >= RIGHT:
            return kept, found
    raise ValueError(
        f"the head is right on {sum(found.recall) / FEWEST:.0%} of its {FEWEST} best classes: "
        f"expected {RIGHT:.0%}; take a larger share, or another data set"
    )


def _only(dataset: datasets.Dataset, kept: Tensor) -> datasets.Dataset:
    """The images of some classes, numbered by their place among them."""
    rows = torch.isin(dataset.labels, kept)
    return replace(
        dataset,
        images=dataset.images[rows],
        labels=_renumbered(dataset.labels[rows], kept),
        class_names=tuple(dataset.class_names[each] for each in kept.tolist()),
    )


def _renumbered(labels: Tensor, kept: Tensor) -> Tensor:
    return (labels[:, None] == kept).long().argmax(1)


def _columns(width: int, part: str) -> Tensor:
    """The features that a head on one part does not read: class token first, then the mean."""
    first = torch.arange(width) < width // 2
    return ~first if part == "class token" else first


def _with_head(body: torch.nn.Module, found: LinearProbe) -> torch.nn.Module:
    body.head = ClassAndMeanHead(found.weight.shape[1] // 2, len(found.weight))
    with torch.no_grad():
        body.head.classifier.weight.copy_(found.weight)
        body.head.classifier.bias.copy_(found.bias)
    return body.eval()


@dataclass(frozen=True)
class _Game:
    """Collages as the model takes them, and what is asked of each."""

    images: Tensor
    labels: Tensor
    masks: Tensor

    def rows(self, model: torch.nn.Module, reads: str, names: Iterable[str]) -> list[dict]:
        """Of some explanations, and of the best answer that there is."""
        maps = explain_collages(model, self.images, self.labels, names, progress=_say)
        drops = quarter_drops(model, self.images, self.labels)
        best = torch.nn.functional.one_hot(drops.argmax(2), 4).float().unflatten(2, (2, 2))
        told = {name: each.cpu() for name, each in (maps | {LARGEST_DROP: best}).items()}
        return [{"reads": reads} | row for row in collage_rows(told, self.masks)]


def _say(name: str) -> None:
    typer.echo(f"{name} ...", err=True)
