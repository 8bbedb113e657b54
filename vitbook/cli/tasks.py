"""``vitbook tasks``: natural and structured tasks of 1,000 images, read by a frozen body."""

from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import Tensor

from vitbook import datasets, runs
from vitbook.cli.frozen_readers import (
    EACH_PATCH,
    NULLS,
    READ,
    checked_size,
    frozen_body,
    frozen_readers,
)
from vitbook.cli.options import Device, stem
from vitbook.cli.tables import print_table
from vitbook.datasets.tasks import TASKS
from vitbook.devices import choose_device, set_threads
from vitbook.extras import from_extra
from vitbook.training.transfer.few_shot import t_interval
from vitbook.training.transfer.halves import score_halves


def tasks(
    names: Annotated[list[str] | None, typer.Argument(help=f"Of {', '.join(TASKS)}.")] = None,
    model: Annotated[
        str,
        typer.Option(help="A name from `vitbook weights list`, one of timm's, or a checkpoint."),
    ] = "vit_small_patch14_focus",
    image_size: Annotated[int | None, typer.Option(help="By default the model's.")] = None,
    images: Annotated[int, typer.Option(min=20, help="Of a task; half of them to learn.")] = 2000,
    draws: Annotated[int, typer.Option(min=2, help="Of the half, by seeds 0, 1, ...")] = 5,
    each_patch: Annotated[
        bool,
        typer.Option("--each-patch", help="Read the patch tokens side by side, too, not averaged."),
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder of features and measurements.")] = Path("runs"),
    threads: Annotated[int | None, typer.Option(help="Of the CPU; by default all.")] = None,
    device: Device = None,
) -> None:
    """Read frozen tokens on small tasks (VTAB's groups), beside fresh weights and pixels."""
    set_threads(threads)
    place = choose_device(device)
    with from_extra("data"):
        import scipy  # noqa: F401  intervals would ask for it after minutes
    made = {name: datasets.make_task(name, images) for name in names or TASKS}
    for name in made:
        runs.check_place("task", f"{stem(model)}-{name}", out)
    body, normalize, about = frozen_body(model, image_size)
    size = checked_size(model, body, next(iter(made.values())))
    readers = frozen_readers(body, normalize, size, place, out / "features", each_patch)
    lines = []
    for name, task in made.items():
        rows = []
        for reader, features in readers.items():
            scores = score_halves(features(task.images), task.labels, draws, task.num_classes)
            rows.append({
                "features": reader,
                "accuracy": list(t_interval(scores)),
                "draws": [round(each, 4) for each in scores],
            })  # fmt: skip
            lines.append(_line(name, rows[-1]))
        measured = runs.Measurement(
            kind="task",
            subject=f"{stem(model)}-{name}",
            settings=about | NULLS | {
                "task": name, "group": TASKS[name].group, "asks": TASKS[name].asks,
                "dataset": task.provenance["name"], "rule": task.provenance["rule"],
                "image_size": size, "training_images": images // 2,
                "test_images": images - images // 2, "draws": draws, "features": READ,
                **({"each_patch": EACH_PATCH} if each_patch else {}),
                "classes": task.num_classes, "commonest": round(_commonest(task.labels), 4),
                "interval": "Student's t over random halves, 95 %",
            },
            rows=rows,
            **runs.made_on(place),
        )  # fmt: skip
        typer.echo(f"wrote {runs.record(measured, out)}", err=True)
    print_table(lines)


def _commonest(labels: Tensor) -> float:
    """Of the images, the share of the class that most have."""
    return float(torch.bincount(labels).max() / len(labels))


def _line(task: str, row: dict) -> dict[str, str]:
    mean, low, high = row["accuracy"]
    accuracy = f"{mean:.1%} ± {50 * (high - low):.1f}"
    return {
        "task": task, "group": TASKS[task].group, "features": row["features"],
        "accuracy": accuracy,
    }  # fmt: skip
