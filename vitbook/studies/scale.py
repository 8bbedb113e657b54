"""What the chapter on scale measures."""

from collections.abc import Callable
from typing import Annotated

import torch
import typer
from torch import Tensor

from vitbook import datasets
from vitbook.datasets.tasks import TASKS
from vitbook.runs.measuring import Sheet, measurement
from vitbook.training.asked import FrozenModel, ImageSize, stem
from vitbook.training.transfer.few_shot import t_interval
from vitbook.training.transfer.frozen_readers import (
    EACH_PATCH,
    NULLS,
    READ,
    checked_size,
    frozen_body,
    frozen_readers,
)
from vitbook.training.transfer.halves import score_halves


@measurement(needs=("data", "scipy"), task={"features": "{features}", "accuracy": "{accuracy:.1%}"})
def tasks(
    sheet: Sheet,
    names: Annotated[list[str] | None, typer.Argument(help=f"Of {', '.join(TASKS)}.")] = None,
    model: FrozenModel = "vit_small_patch14_focus",
    image_size: ImageSize = None,
    images: Annotated[int, typer.Option(min=20, help="Of a task; half of them to learn.")] = 2000,
    draws: Annotated[int, typer.Option(min=2, help="Of the half, by seeds 0, 1, ...")] = 5,
    each_patch: Annotated[
        bool,
        typer.Option("--each-patch", help="Read the patch tokens side by side, too, not averaged."),
    ] = False,
) -> None:
    """Read frozen tokens on small tasks (VTAB's groups), beside fresh weights and pixels."""
    made = {name: datasets.make_task(name, images) for name in names or TASKS}
    sheet.expect(*(f"{stem(model)}-{name}" for name in made))
    body, normalize, about = frozen_body(model, image_size)
    size = checked_size(model, body, next(iter(made.values())))
    readers = frozen_readers(body, normalize, size, sheet.device, sheet.folder, each_patch)

    def row(task: datasets.Dataset, name: str, features: Callable[[Tensor], Tensor]) -> dict:
        scores = score_halves(features(task.images), task.labels, draws, task.num_classes)
        return {
            "features": name,
            "accuracy": list(t_interval(scores)),
            "draws": [round(each, 4) for each in scores],
        }

    for name, task in made.items():
        print(f"{name}, {TASKS[name].group}:")
        rows = [
            sheet.once(f"{name}, {seen}, {about['weights']}", row, task, seen, features)
            for seen, features in readers.items()
        ]
        commonest = torch.bincount(task.labels).max().item() / len(task)
        settings = about | NULLS | {
            "task": name, "group": TASKS[name].group, "asks": TASKS[name].asks,
            "dataset": task.provenance["name"], "rule": task.provenance["rule"],
            "image_size": size, "training_images": images // 2,
            "test_images": images - images // 2, "draws": draws, "features": READ,
            **({"each_patch": EACH_PATCH} if each_patch else {}),
            "classes": task.num_classes, "commonest": round(commonest, 4),
            "interval": "Student's t over random halves, 95 %",
        }  # fmt: skip
        sheet.write(f"{stem(model)}-{name}", settings, rows)
