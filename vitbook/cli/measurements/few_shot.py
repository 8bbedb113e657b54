"""What a frozen body says of a class after a few images of it."""

from collections.abc import Callable
from typing import Annotated

import torch
import typer
from torch import Tensor

from vitbook import datasets
from vitbook.blocks import LAST
from vitbook.runs.measuring import Sheet, measurement
from vitbook.training.asked import DataName, FrozenModel, ImageSize, Layer, Share, stem
from vitbook.training.transfer.few_shot import NEIGHBOURS, SHOTS, check_shots, few_shot_curve
from vitbook.training.transfer.frozen_readers import (
    CONTROLS,
    checked_size,
    frozen_body,
    frozen_readers,
    layer_read,
)
from vitbook.training.transfer.neighbours import TEMPERATURE
from vitbook.training.transfer.ridge import PENALTIES, REFERENCE_PENALTY


def _lines(rows: list[dict]) -> list[dict[str, str]]:
    """A line for each reader, a column for each number of shots: mean, and half the interval."""
    lines: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        mean, low, high = row["accuracy"]
        asked = {"features": row["features"], "reader": row["reader"]}
        line = lines.setdefault(tuple(asked.values()), asked)
        line[str(row["shots"])] = f"{mean:.1%} ± {50 * (high - low):.1f}"
    return list(lines.values())


@measurement(needs=("data", "scipy"), few_shot=_lines)
def few_shot(
    sheet: Sheet,
    dataset: DataName,
    model: FrozenModel = "vit_small_patch14_focus",
    image_size: ImageSize = None,
    layer: Layer = LAST,
    shots: Annotated[str, typer.Option(help="Training images of each class.")] = ",".join(
        map(str, SHOTS)
    ),
    draws: Annotated[int, typer.Option(min=2, help="Of these images, by seeds 0, 1, ...")] = 5,
    share: Share = 1.0,
    test_images: Annotated[
        int | None, typer.Option(min=1, help="Held-out images, drawn; by default all.")
    ] = None,
) -> None:
    """Read frozen tokens after a few images a class, beside fresh weights and pixels."""
    numbers = _numbers(shots)
    subject = f"{stem(model)}-{dataset}" + (f"-{share:g}" if share < 1 else "")
    subject += f"-{layer}" * (layer != LAST)
    sheet.expect(subject)
    split = datasets.held_out_split(dataset)
    train = datasets.take_share(datasets.load(dataset, "train"), share)
    check_shots(train.labels, numbers, train.num_classes)
    test_seen, test_labels = _drawn(datasets.load(dataset, split), test_images)
    body, normalize, about = frozen_body(model, image_size)
    size = checked_size(model, body, train)
    path, told = layer_read(body, layer)

    def read(seen: str, features: Callable[[Tensor], Tensor]) -> list[dict]:
        given = features(train.images), train.labels, features(test_seen), test_labels
        return [
            {
                "features": seen,
                "reader": score.reader,
                "shots": score.shots,
                "accuracy": list(score.accuracy),
                "draws": [round(each, 4) for each in score.draws],
                "penalties": list(score.penalties),
            }
            for score in few_shot_curve(*given, numbers, draws, train.num_classes)
        ]

    rows = []
    given = body, normalize, size, sheet.device, sheet.folder
    for seen, features in frozen_readers(*given, layer=path).items():
        rows += sheet.once(f"{seen} {about['weights']}", read, seen, features)
    settings = about | CONTROLS | {
        "dataset": train.provenance["name"], "split": split, "image_size": size,
        "share": share, "training_images": len(train), "test_images": len(test_labels),
        "drawn_test_images": test_images is not None, "draws": draws, "layer": path,
        "features": told,
        "ridge": f"each feature standardised by the shots, targets +1 and -1, bias free; of "
        f"{len(PENALTIES)} penalties from {min(PENALTIES):.2g} to {max(PENALTIES):g} the one "
        "whose answers for images left out, one of each class at a time, agree best with the "
        f"targets; of one image a class {REFERENCE_PENALTY:g}",
        "neighbours": f"up to {NEIGHBOURS} by cosine, votes exp(cosine / {TEMPERATURE})",
        "interval": "Student's t over the draws, 95 %",
    }  # fmt: skip
    sheet.write(subject, settings, rows)


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
