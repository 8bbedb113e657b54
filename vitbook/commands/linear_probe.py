"""``vitbook linear-probe``: what a frozen pretrained body knows of a data set."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import Tensor, nn
from tqdm import tqdm

from vitbook import datasets, results
from vitbook.commands.options import MOST_SEED, Device
from vitbook.commands.probed_model import fresh_twin, square_side
from vitbook.commands.tables import interval, print_table
from vitbook.datasets.resizing import resize
from vitbook.devices import choose_device, set_threads
from vitbook.files import check_file_writable
from vitbook.models.linear_heads import LinearHead, save_head
from vitbook.models.pretrained import Pretrained, load_pretrained
from vitbook.training.frozen_features import frozen_features
from vitbook.training.linear_probe import (
    HELD_OUT,
    LinearProbe,
    accuracy_interval,
    check_labels,
    fit_linear_probe,
)

# Of the pixels that the simplest null reads, a side.
RAW_SIZE = 32


def linear_probe(
    dataset: Annotated[str, typer.Argument(help="A name from `vitbook data list`.")],
    model: Annotated[
        str, typer.Option(help="A name from `vitbook weights list`, or one of timm's.")
    ] = "vit_small_patch14_focus",
    image_size: Annotated[int | None, typer.Option(help="By default the model's.")] = None,
    share: Annotated[float, typer.Option(help="Of each class's training images.")] = 1.0,
    seed: Annotated[
        int, typer.Option(min=0, max=MOST_SEED, help="Of the held-out tenth that chooses.")
    ] = 0,
    out: Annotated[Path, typer.Option(help="Folder of the head and the measurement.")] = Path(
        "runs"
    ),
    threads: Annotated[int | None, typer.Option(help="Of the CPU; by default all.")] = None,
    device: Device = None,
) -> None:
    """Fit a linear layer on frozen tokens, beside the same on fresh weights and on pixels."""
    set_threads(threads)
    place = choose_device(device)
    subject = f"{model}-{dataset}"
    results.check_place("linear_probe", subject, out)
    check_file_writable(out / f"{subject}.safetensors")
    split = datasets.held_out_split(dataset)
    train = datasets.take_share(datasets.load(dataset, "train"), share)
    test = datasets.load(dataset, split)
    check_labels(train.labels, train.num_classes)
    loaded = load_pretrained(model, image_size=image_size)
    size = _checked_size(model, loaded, dataset, train)
    rows, best = [], None
    for name, features in _readers(loaded, place, size, out / "features").items():
        found = fit_linear_probe(features(train.images), train.labels, seed, train.num_classes)
        rows.append(_row(name, found, found.logits(features(test.images)), test))
        best = best or found
    print_table(
        [
            {"features": row["features"], "accuracy": interval(row["accuracy"], ".2%")}
            for row in rows
        ]
    )
    same = {
        "dataset": train.provenance["name"],
        "training_images": len(train),
        "weights": loaded.provenance["digest"],
    }
    measured = results.Measurement(
        kind="linear_probe",
        subject=subject,
        settings=same | {
            "split": split, "image_size": size, "share": share, "test_images": len(test),
            "features": "class token beside the mean of the patch tokens, after the last norm",
            "fit": f"logistic regression, penalty chosen on {HELD_OUT:.0%} of the training images",
            "seed": seed, "interval": "Wilson, 95 %", "fresh": "seed 0",
            "raw": f"{RAW_SIZE} x {RAW_SIZE} pixels",
        },
        rows=rows,
        **results.made_on(place),
    )  # fmt: skip
    about = same | {
        "body": model,
        "accuracy": rows[0]["accuracy"],
        "recall_in_training": rows[0]["recall_in_training"],
    }
    head = LinearHead(best.weight, best.bias, train.class_names, size, about)
    path = save_head(out / f"{subject}.safetensors", head)
    typer.echo(f"wrote {path} and {results.record(measured, out)}")


def _checked_size(name: str, loaded: Pretrained, dataset: str, train: datasets.Dataset) -> int:
    """Side of the square images that the model takes; refuses images that do not suit it."""
    channels, given = loaded.model.spec.channels, train.images.shape[1]
    if given != channels:
        raise ValueError(
            f"{dataset} has images of {given} channels, {name} takes {channels}: choose another "
            "data set"
        )
    return square_side(name, loaded.model.spec.image_size)


def _readers(
    loaded: Pretrained, place: torch.device, size: int, kept: Path
) -> dict[str, Callable[[Tensor], Tensor]]:
    """What turns images into features: the pretrained body first, then its two nulls."""

    def tokens_of(body: nn.Module, name: str) -> Callable[[Tensor], Tensor]:
        def features(images: Tensor) -> Tensor:
            with tqdm(total=len(images), desc=name, unit="image") as bar:
                chunks = []
                for chunk in frozen_features(body, loaded.normalize, images, size, kept):
                    chunks.append(chunk)
                    bar.update(len(chunk))
            return torch.cat(chunks)

        return features

    return {
        "pretrained": tokens_of(loaded.model.to(place), "pretrained"),
        "fresh weights": tokens_of(fresh_twin(loaded.model).to(place), "fresh weights"),
        "raw pixels": lambda images: resize(images, RAW_SIZE).flatten(1) / 255,
    }


def _row(name: str, found: LinearProbe, logits: Tensor, test: datasets.Dataset) -> dict:
    """Of one kind of features, for the ledger."""
    return {
        "features": name,
        "accuracy": accuracy_interval(logits, test.labels),
        "recall": _recall(logits, test.labels, test.num_classes),
        "recall_in_training": [round(share, 4) for share in found.recall],
        "strength": found.strength,
        "tried": {f"{strength:g}": score for strength, score in found.tried.items()},
    }


def _recall(logits: Tensor, labels: Tensor, num_classes: int) -> list[float | None]:
    """Share of each class's images that are right; None of a class without one."""
    right = (logits.argmax(dim=1) == labels).float()
    return [
        round(right[labels == each].mean().item(), 4) if (labels == each).any() else None
        for each in range(num_classes)
    ]
