"""What the chapter on small data measures."""

from collections.abc import Iterator
from math import isfinite
from typing import Annotated

import torch
import typer
from torch import Tensor, nn

from vitbook import datasets
from vitbook.datasets import Dataset
from vitbook.model_utilities import evaluating
from vitbook.runs.measuring import Sheet, measurement
from vitbook.training.asked import Checkpoints, OtherData, rows_of_checkpoints
from vitbook.training.engine.evaluation import as_pixels, check_outputs
from vitbook.training.engine.loss import cross_entropy
from vitbook.training.engine.sharpness_aware import uphill


def losses_uphill(
    model: nn.Module, dataset: Dataset, radius: float | int, *, batch_size: int = 256
) -> tuple[float, float]:
    """The mean loss of ``dataset`` where the weights are, and ``radius`` uphill, as SAM steps.

    A model in evaluation; neither its weights nor its gradients are changed. The length of the
    step is that of the weights themselves: models whose weights differ in size are not compared
    by it (Dinh et al. 2017, "Sharp minima can generalize for deep nets").

    Args:
        model: from images to logits.
        dataset: whose images and labels it is asked about.
        radius: above 0.
        batch_size: images that it is given at once, 1 or more.

    Raises:
        ValueError: a radius that is not above 0, a loss that is no finite number here or so far
            uphill, fewer outputs than classes, no weight that learns, or one of 16 bits.
    """
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    if not weights:
        raise ValueError(
            f"no weight of this {type(model).__name__} learns: expected one, whose loss has a slope"
        )
    if coarse := [weight.dtype for weight in weights if weight.dtype.itemsize < 4]:
        raise ValueError(
            f"weights of {str(coarse[0]).removeprefix('torch.')}, which round a step of {radius!r} "
            "away: expected float32 or more; call model.float() first"
        )
    device, gradients = weights[0].device, [weight.grad for weight in weights]

    def losses() -> Iterator[Tensor]:  # the mean over all images, in parts
        parts = dataset.images.split(batch_size), dataset.labels.split(batch_size)
        for images, labels in zip(*parts, strict=True):
            logits = model(as_pixels(images, model))
            check_outputs(logits, dataset)
            share = len(images) / len(dataset)
            yield share * cross_entropy(logits, labels.to(device), 0.0)

    with evaluating(model), torch.inference_mode(False), torch.enable_grad():
        try:
            for weight in weights:
                weight.grad = None
            here = 0.0
            for part in losses():
                part.backward()
                here += part.item()
            if not isfinite(here):
                raise ValueError(
                    f"the loss at the weights is {here:g}: expected a finite number; check the "
                    "weights for NaN and infinity"
                )
            with uphill(model, radius), torch.no_grad():
                there = sum(part.item() for part in losses())
        finally:
            for weight, gradient in zip(weights, gradients, strict=True):
                weight.grad = gradient
    if not isfinite(there):
        raise ValueError(
            f"the loss goes from {here:.4g} to {there:g} over a radius of {radius:g}: expected a "
            "finite number; take a smaller radius"
        )
    return here, there


def _lines(rows: list[dict]) -> list[dict[str, str]]:
    return [
        {
            "run": row["run"],
            "loss": f"{row['loss']:.4f}",
            "uphill": f"{row['uphill']:.4f}",
            "rise": f"{row['uphill'] - row['loss']:.4f}",
            "length of the weights": f"{row['length']:.2f}",
        }
        for row in rows
    ]


@measurement(sharpness=_lines)
def sharpness(
    sheet: Sheet,
    checkpoints: Checkpoints,
    radius: Annotated[float, typer.Option(help="How far uphill, over all weights.")] = 0.05,
    dataset: OtherData = None,
    split: Annotated[str, typer.Option(help="Of the data set.")] = "train",
) -> None:
    """Say how far the mean loss rises where the weights take one step uphill, as SAM does.

    Checkpoints of one architecture can be compared: the length of the step is that of the weights.
    """

    def row(model: nn.Module, images: datasets.Dataset) -> dict:
        loss, uphill_loss = losses_uphill(model, images, radius)
        length = nn.utils.get_total_norm(list(model.parameters())).item()
        return {
            "loss": round(loss, 6), "uphill": round(uphill_loss, 6),
            "length": round(length, 4),
        }  # fmt: skip

    subject, about, rows = rows_of_checkpoints(sheet, checkpoints, dataset, split, row)
    settings = about | {
        "radius": radius,
        "loss": "mean cross-entropy; uphill: where the weights went so far along its gradient",
        "length": "of all weights, as one vector",
    }
    sheet.write(subject, settings, rows)
