"""Parameters of many models, and what one image costs each of them."""

import time
from typing import Annotated

import numpy as np
import torch
import typer
from torch import Tensor, nn

from vitbook import measure
from vitbook.cli.probed_model import ProbedModel, load_probed_model
from vitbook.devices import counts_memory
from vitbook.errors import first_few
from vitbook.runs.measuring import Sheet, measurement
from vitbook.runs.tables import interval
from vitbook.training.asked import check_each_once


def _lines(rows: list[dict]) -> list[dict[str, str]]:
    return [
        {
            "model": row["model"],
            "image": f"{row['image_size']} px",
            "parameters": f"{row['parameters']:,}",
            "MACs/image": f"{row['macs'] / 1e6:,.1f} M",
            "ms/image": f"{1e3 * row['seconds']:,.1f}",
            "time over the first": interval(row["time"], ".3f"),
            "memory/image": "not counted"
            if row["memory_bytes"] is None
            else f"{row['memory_bytes'] / 2**20:,.1f} MiB",
        }
        for row in rows
    ]


@measurement(costs=_lines)
def costs(
    sheet: Sheet,
    models: Annotated[
        list[str],
        typer.Argument(
            help="Names from `vitbook models`, timm:NAME, or checkpoints; times refer to the "
            "first, at the first size."
        ),
    ],
    subject: Annotated[
        str, typer.Option(help="What the models have in common: the file is called after it.")
    ],
    sizes: Annotated[
        list[int] | None,
        typer.Option(
            "--size",
            min=1,
            help="Side of the images, in pixels; repeatable. By default the models'.",
        ),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Images at once.")] = 4,
    rounds: Annotated[
        int, typer.Option(min=2, help="In each, every model runs beside the first.")
    ] = 20,
    shared: Annotated[
        bool, typer.Option("--shared", help="Others use the machine: count one thread's own time.")
    ] = False,
) -> None:
    """Count models, and time them in turn on images of one size or of several; ratios are kept.

    Weights that are not there are random, which takes as long.
    """
    check_each_once(models)
    check_each_once(sizes or [], "--size ")
    place = sheet.device
    if shared and (place.type != "cpu" or torch.get_num_threads() > 1):
        raise ValueError(
            f"--shared on {place} with {torch.get_num_threads()} threads: only the time of one "
            "thread of the CPU can be told from its waiting; add --device cpu --threads 1"
        )
    sheet.expect(subject)
    loaded = [load_probed_model(name, size=size) for size in sizes or [None] for name in models]
    _check_images(loaded, each_size=bool(sizes))
    works = [(each.model.to(place), _images(each, batch).to(place)) for each in loaded]
    with torch.no_grad():
        rows = [_counted(each, *work) for each, work in zip(loaded, works, strict=True)]
    first, *others = works
    # The first runs beside each of the others: what a busy machine does to one, it does to both.
    turns = [work for other in others or [first] for work in (first, other)]
    with torch.no_grad():
        seconds = measure.interleaved_seconds(
            [lambda model=model, images=images: model(images) for model, images in turns],
            rounds,
            label="timing",
            clock=time.process_time if shared else time.perf_counter,
        )
    beside, own = seconds[::2], seconds[1::2]
    timed = [(beside.ravel(), beside.ravel()), *zip(own, beside, strict=True)]
    for row, (mine, reference) in zip(rows, timed, strict=False):
        ratio = measure.ratio_of(mine, reference)
        row["time"] = [round(each, 4) for each in (ratio.median, ratio.low, ratio.high)]
        row["seconds"] = round(float(np.median(mine)) / batch, 6)
    settings = {
        "image_size": sizes or loaded[0].size, "batch": batch, "rounds": rounds,
        "precision": "float32",
        "threads": torch.get_num_threads() if place.type == "cpu" else 0,
        "clock": "processor time; the machine was shared" if shared else "wall time",
        "weights": {each.name: each.weights for each in loaded if each.fresh} or "random",
        "time": f"of an image, over that of {models[0]} ({loaded[0].size} px) run beside it; "
        "bootstrap, 95 %",
        "seconds": "of an image, the median over rounds",
        "memory_bytes": "the most at once in a forward pass, over the weights, for each image",
    }  # fmt: skip
    sheet.write(subject, settings, rows)


def _check_images(loaded: list[ProbedModel], each_size: bool) -> None:
    """Refuse models that do not take the same images, at ``each_size`` those of one size."""
    first = loaded[0]
    others = [
        f"{each.name} ({each.channels} x {each.size} px)"
        for each in loaded
        if each.channels != first.channels or not (each_size or each.size == first.size)
    ]
    if others:
        raise ValueError(
            f"{first.name} takes images of {first.channels} x {first.size} px, not: "
            f"{first_few(others, 3)}. Expected models of one size, whose times can be compared"
        )


def _images(each: ProbedModel, batch: int) -> Tensor:
    seeded = torch.Generator().manual_seed(0)
    image = torch.randn(1, each.channels, each.size, each.size, generator=seeded)
    return image.expand(batch, -1, -1, -1).contiguous()


def _counted(each: ProbedModel, model: nn.Module, images: Tensor) -> dict:
    return {
        "model": each.name,
        "image_size": each.size,
        "parameters": measure.count_parameters(model),
        "macs": measure.count_macs(model, images[:1]),
        "memory_bytes": _memory(model, images),
    }


def _memory(model: nn.Module, images: Tensor) -> int | None:
    """Of a forward pass, for each image; None on a device that counts none, as Apple's."""
    if images.device.type != "cpu" and not counts_memory(images.device):
        return None
    return measure.peak_memory(lambda: model(images), images.device) // len(images)
