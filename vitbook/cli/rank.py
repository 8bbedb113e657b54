"""``vitbook rank``: which checkpoint to fine-tune, told from its frozen features."""

from pathlib import Path
from typing import Annotated

import torch
import typer

from vitbook import datasets, runs
from vitbook.cli.frozen_readers import READ, checked_size, frozen_body, kept_features
from vitbook.cli.options import DataName, Device
from vitbook.cli.tables import print_table
from vitbook.devices import choose_device, set_threads
from vitbook.errors import UnknownNameError
from vitbook.files import check_writable
from vitbook.model_utilities import weights_digest
from vitbook.models import create_model, list_models
from vitbook.models.weights.formats import ENDINGS
from vitbook.training.transfer.few_shot import NEIGHBOURS
from vitbook.training.transfer.transfer_scores import FOLDS, projected_scores, transfer_score


def rank(
    dataset: DataName,
    models: Annotated[
        list[str],
        typer.Argument(
            help="Names from `vitbook weights list`, timm's, checkpoints; of the catalogue for "
            "fresh weights. NAME@84 gives it images of 84 pixels."
        ),
    ],
    share: Annotated[float, typer.Option(help="Of each class's training images.")] = 1.0,
    width: Annotated[
        int | None,
        typer.Option(min=1, help="Let ridge read so many random mixes of the features, too."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of features and measurement.")] = Path("runs"),
    threads: Annotated[int | None, typer.Option(help="Of the CPU; by default all.")] = None,
    device: Device = None,
) -> None:
    """Score frozen bodies on the training images, to choose the one that is worth fine-tuning."""
    set_threads(threads)
    place = choose_device(device)
    check_writable(out)
    runs.check_place("transfer_scores", dataset, out)
    asked = [_named(word) for word in models]
    train = datasets.take_share(datasets.load(dataset, "train"), share)
    rows, seen = [], set()
    for name, size in asked:
        body, normalize, about = _body(name, size)
        side = checked_size(name, body, train)
        if (name, side) in seen:  # by its own size too, as NAME@8 may be
            raise ValueError(f"{name} of {side} pixels is there twice: name each model once")
        seen.add((name, side))
        read = kept_features(body.to(place), normalize, side, out / "features", name)
        features = read(train.images)
        score = transfer_score(features, train.labels, train.num_classes)
        projected = {}
        if width is not None:
            found = projected_scores(features, train.labels, width, train.num_classes)
            projected = {"ridge_projected": [round(each, 4) for each in found]}
        rows.append(
            {
                "model": name,
                "image_size": side,
                "ridge": score.ridge,
                "neighbours": score.neighbours,
                "penalty": score.penalty,
            }
            | projected
            | about
        )
    rows.sort(key=lambda row: -row["ridge"])
    print_table(
        [
            {
                "model": row["model"],
                "pixels": str(row["image_size"]),
                "ridge": f"{row['ridge']:.1%}",
                "neighbours": f"{row['neighbours']:.1%}",
                **({f"ridge of {width}": _mean(row["ridge_projected"])} if width else {}),
                "learned from": row["learned_from"],
            }
            for row in rows
        ]
    )
    measured = runs.Measurement(
        kind="transfer_scores",
        subject=dataset,
        settings={
            "dataset": train.provenance["name"], "share": share, "training_images": len(train),
            "features": READ, "folds": FOLDS, "neighbours": NEIGHBOURS,
            "read": "each fold by what the others teach; no held-out image was asked",
            **({} if width is None else {"projected_width": width}),
        },
        rows=rows,
        **runs.made_on(place),
    )  # fmt: skip
    typer.echo(f"wrote {runs.record(measured, out)}")


def _mean(scores: list[float]) -> str:
    return f"{sum(scores) / len(scores):.1%}"


def _named(word: str) -> tuple[str, int | None]:
    """A model's name, and the pixels behind its last @, if there are any."""
    name, at, pixels = word.rpartition("@")
    if not at or word.endswith(ENDINGS):  # a file, whose folder may hold an @
        return word, None
    if not pixels.isdecimal() or not name:
        raise ValueError(f"{word}: expected a name, or a name and pixels such as {name or 'X'}@84")
    return name, int(pixels)


def _body(name: str, size: int | None):
    """As :func:`frozen_body`; a name of the catalogue has fresh weights of seed 0."""
    if name not in list_models():
        try:
            return frozen_body(name, size)
        except UnknownNameError as error:
            raise UnknownNameError("weights, checkpoint or model", name, list_models()) from error
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = create_model(name, image_size=size).eval()
    about = {"weights": weights_digest(model), "learned_from": "nothing"}
    return model, datasets.normalize, about
