"""``vitbook few-shot``: what a frozen body says of a class after a few images of it."""

from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import Tensor

from vitbook import datasets, runs
from vitbook.cli.frozen_readers import NULLS, READ, checked_size, frozen_body, frozen_readers
from vitbook.cli.options import DataName, Device, stem
from vitbook.cli.tables import print_table
from vitbook.devices import choose_device, set_threads
from vitbook.extras import from_extra
from vitbook.training.transfer.few_shot import (
    NEIGHBOURS,
    SHOTS,
    FewShotScore,
    check_shots,
    few_shot_curve,
)
from vitbook.training.transfer.neighbours import TEMPERATURE
from vitbook.training.transfer.ridge import PENALTIES, REFERENCE_PENALTY


def few_shot(
    dataset: DataName,
    model: Annotated[
        str,
        typer.Option(help="A name from `vitbook weights list`, one of timm's, or a checkpoint."),
    ] = "vit_small_patch14_focus",
    image_size: Annotated[int | None, typer.Option(help="By default the model's.")] = None,
    shots: Annotated[str, typer.Option(help="Training images of each class.")] = ",".join(
        map(str, SHOTS)
    ),
    draws: Annotated[int, typer.Option(min=2, help="Of these images, by seeds 0, 1, ...")] = 5,
    share: Annotated[
        float, typer.Option(help="Of each class's training images, to draw from.")
    ] = 1.0,
    test_images: Annotated[
        int | None, typer.Option(min=1, help="Held-out images, drawn; by default all.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of features and measurement.")] = Path("runs"),
    threads: Annotated[int | None, typer.Option(help="Of the CPU; by default all.")] = None,
    device: Device = None,
) -> None:
    """Read frozen tokens after a few images a class, beside fresh weights and pixels."""
    set_threads(threads)
    place, numbers = choose_device(device), _numbers(shots)
    with from_extra("data"):
        import scipy  # noqa: F401  intervals would ask for it after hours
    subject = f"{stem(model)}-{dataset}" + (f"-{share:g}" if share < 1 else "")
    runs.check_place("few_shot", subject, out)
    split = datasets.held_out_split(dataset)
    train = datasets.take_share(datasets.load(dataset, "train"), share)
    check_shots(train.labels, numbers, train.num_classes)
    test_seen, test_labels = _drawn(datasets.load(dataset, split), test_images)
    body, normalize, about = frozen_body(model, image_size)
    size = checked_size(model, body, train)
    rows, lines = [], []
    kept = out / "features"
    for seen, features in frozen_readers(body, normalize, size, place, kept).items():
        given = features(train.images), train.labels, features(test_seen), test_labels
        typer.echo(f"{seen}: {draws} draws of {shots} images a class", err=True)
        found = few_shot_curve(*given, numbers, draws, train.num_classes)
        rows += [_row(seen, score) for score in found]
        lines += _lines(seen, found)
    print_table(lines)
    measured = runs.Measurement(
        kind="few_shot",
        subject=subject,
        settings=about | NULLS | {
            "dataset": train.provenance["name"], "split": split, "image_size": size,
            "share": share, "training_images": len(train), "test_images": len(test_labels),
            "drawn_test_images": test_images is not None, "draws": draws, "features": READ,
            "ridge": f"each feature standardised by the shots, targets +1 and -1, bias free; of "
            f"{len(PENALTIES)} penalties from {min(PENALTIES):.2g} to {max(PENALTIES):g} the one "
            "whose answers for images left out, one of each class at a time, agree best with the "
            f"targets; of one image a class {REFERENCE_PENALTY:g}",
            "neighbours": f"up to {NEIGHBOURS} by cosine, votes exp(cosine / {TEMPERATURE})",
            "interval": "Student's t over the draws, 95 %",
        },
        rows=rows,
        **runs.made_on(place),
    )  # fmt: skip
    typer.echo(f"wrote {runs.record(measured, out)}")


def _numbers(words: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(word) for word in words.split(",") if word.strip()}))
    except ValueError:
        raise ValueError(f"--shots {words}: expected numbers such as 1,5,10") from None


def _drawn(test: datasets.Dataset, number: int | None) -> tuple[Tensor, Tensor]:
    """Images and labels of all held-out images, or of some, in their order."""
    if number is None:
        return test.images, test.labels
    if number > len(test):
        raise ValueError(
            f"--test-images {number}: {test.provenance['name']} has {len(test):,} held out; give "
            "fewer, or leave it out"
        )
    generator = torch.Generator().manual_seed(0)
    places = torch.randperm(len(test), generator=generator)[:number].sort().values
    return test.images[places], test.labels[places]


def _row(name: str, score: FewShotScore) -> dict:
    """Of one kind of features, one reader and one number of shots, for the ledger."""
    return {
        "features": name,
        "reader": score.reader,
        "shots": score.shots,
        "accuracy": list(score.accuracy),
        "draws": [round(each, 4) for each in score.draws],
        "penalties": list(score.penalties),
    }


def _lines(name: str, found: list[FewShotScore]) -> list[dict[str, str]]:
    """A line for each reader, a column for each number of shots: mean, and half the interval."""
    lines: dict[str, dict[str, str]] = {}
    for score in found:
        mean, low, high = score.accuracy
        line = lines.setdefault(score.reader, {"features": name, "reader": score.reader})
        line[str(score.shots)] = f"{mean:.1%} ± {50 * (high - low):.1f}"
    return list(lines.values())
