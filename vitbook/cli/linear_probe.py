"""``vitbook linear-probe``: what a frozen pretrained body knows of a data set."""

from pathlib import Path
from typing import Annotated

import typer
from torch import Tensor

from vitbook import datasets, runs
from vitbook.cli.frozen_readers import NULLS, READ, checked_size, frozen_readers
from vitbook.cli.options import MOST_SEED, DataName, Device, stem
from vitbook.cli.tables import interval, print_table
from vitbook.devices import choose_device, set_threads
from vitbook.files import check_file_writable
from vitbook.models.weights.linear_heads import LinearHead, save_head
from vitbook.models.weights.pretrained import load_pretrained
from vitbook.training.transfer.linear_probe import (
    HELD_OUT,
    LinearProbe,
    accuracy_interval,
    check_labels,
    fit_linear_probe,
)


def linear_probe(
    dataset: DataName,
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
    subject = f"{stem(model)}-{dataset}"
    runs.check_place("linear_probe", subject, out)
    check_file_writable(out / f"{subject}.safetensors")
    split = datasets.held_out_split(dataset)
    train = datasets.take_share(datasets.load(dataset, "train"), share)
    test = datasets.load(dataset, split)
    check_labels(train.labels, train.num_classes)
    loaded = load_pretrained(model, image_size=image_size)
    size = checked_size(model, loaded.model, train, needs_class_token=True)
    rows, best = [], None
    kept = out / "features"
    readers = frozen_readers(loaded.model, loaded.normalize, size, place, kept)
    for name, features in readers.items():
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
    measured = runs.Measurement(
        kind="linear_probe",
        subject=subject,
        settings=same | NULLS | {
            "split": split, "image_size": size, "share": share, "test_images": len(test),
            "features": READ,
            "fit": f"logistic regression, penalty chosen on {HELD_OUT:.0%} of the training images",
            "seed": seed, "interval": "Wilson, 95 %",
        },
        rows=rows,
        **runs.made_on(place),
    )  # fmt: skip
    about = same | {
        "body": model,
        "accuracy": rows[0]["accuracy"],
        "recall_in_training": rows[0]["recall_in_training"],
    }
    head = LinearHead(best.weight, best.bias, train.class_names, size, about)
    path = save_head(out / f"{subject}.safetensors", head)
    typer.echo(f"wrote {path} and {runs.record(measured, out)}")


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
