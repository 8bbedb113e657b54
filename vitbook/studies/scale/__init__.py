"""What the chapter on scale measures."""

from collections.abc import Callable
from typing import Annotated

import torch
import typer
from jaxtyping import Float, Int64
from torch import Tensor

from vitbook import datasets
from vitbook.blocks import LAST
from vitbook.runs.measuring import Sheet, measurement
from vitbook.studies.scale.small_tasks import TASKS, make_task
from vitbook.training.asked import FrozenModel, ImageSize, Layer, stem
from vitbook.training.transfer.few_shot import t_interval
from vitbook.training.transfer.frozen_readers import (
    CONTROLS,
    EACH_PATCH,
    checked_size,
    frozen_body,
    frozen_readers,
    layer_read,
)
from vitbook.training.transfer.ridge import RidgePath

# Of the half that is learned from, to choose the penalty.
FOLDS = 5


def score_halves(
    features: Float[Tensor, "n features"], labels: Int64[Tensor, "n"], draws: int, num_classes: int
) -> tuple[float, ...]:
    """Accuracy on one half of the images of a linear layer that knows the other half.

    Halves are drawn anew each time, by seeds 0, 1, ... The penalty of the ridge regression is
    chosen inside the half that is learned from, with a fifth of its images left out at a time.
    """
    scores = []
    for seed in range(draws):
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
        known, asked = order.tensor_split(2)
        path = RidgePath(features[known], labels[known], num_classes)
        layer = path.best(_dealt(labels[known]))
        right = layer.logits(features[asked]).argmax(dim=1) == labels[asked]
        scores.append(float(right.double().mean()))
    return tuple(scores)


def _dealt(labels: Int64[Tensor, "n"]) -> Int64[Tensor, "n"]:
    """A fold for each image; the images of a class are dealt to the folds in turn."""
    order = labels.argsort(stable=True)
    folds = torch.empty_like(order)
    folds[order] = torch.arange(len(labels), device=labels.device) % FOLDS
    return folds


@measurement(needs=("data", "scipy"), task={"features": "{features}", "accuracy": "{accuracy:.1%}"})
def tasks(
    sheet: Sheet,
    names: Annotated[list[str] | None, typer.Argument(help=f"Of {', '.join(TASKS)}.")] = None,
    model: FrozenModel = "vit_small_patch14_focus",
    image_size: ImageSize = None,
    layer: Layer = LAST,
    images: Annotated[int, typer.Option(min=20, help="Of a task; half of them to learn.")] = 2000,
    draws: Annotated[int, typer.Option(min=2, help="Of the half, by seeds 0, 1, ...")] = 5,
    each_patch: Annotated[
        bool,
        typer.Option("--each-patch", help="Read the patch tokens side by side, too, not averaged."),
    ] = False,
) -> None:
    """Read frozen tokens on small tasks (VTAB's groups), beside fresh weights and pixels."""
    made = {name: make_task(name, images) for name in names or TASKS}
    subjects = {name: f"{stem(model)}-{name}" + f"-{layer}" * (layer != LAST) for name in made}
    sheet.expect(*subjects.values())
    body, normalize, about = frozen_body(model, image_size)
    path, told = layer_read(body, layer)
    size = checked_size(model, body, next(iter(made.values())))
    given = body, normalize, size, sheet.device, sheet.folder, each_patch
    readers = frozen_readers(*given, layer=path)

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
        settings = about | CONTROLS | {
            "task": name, "group": TASKS[name].group, "asks": TASKS[name].asks,
            "dataset": task.provenance["name"], "rule": task.provenance["rule"],
            "image_size": size, "training_images": images // 2,
            "test_images": images - images // 2, "draws": draws, "features": told, "layer": path,
            **({"each_patch": EACH_PATCH} if each_patch else {}),
            "classes": task.num_classes, "commonest": round(commonest, 4),
            "interval": "Student's t over random halves, 95 %",
        }  # fmt: skip
        sheet.write(subjects[name], settings, rows)
