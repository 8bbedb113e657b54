"""What fewer bits cost and save: accuracy, megabytes and time of each scheme."""

from itertools import product
from typing import Annotated

import torch
import typer
from torch import Tensor, nn

from vitbook.measure import interleaved_seconds, ratio_of
from vitbook.model_utilities import weights_digest
from vitbook.runs.measuring import Sheet, measurement
from vitbook.studies.quantization.activations import PLACES, STEPS, round_activations
from vitbook.studies.quantization.schemes import (
    SCHEMES,
    QuantizationError,
    quantize_model,
    stored_bytes,
)
from vitbook.studies.quantization.task import Task, rounded, task_of
from vitbook.training.asked import DataName, ImageSize, Seed, SomeImages, stem

# Of activations, where weights stay as they are.
BITS = (8, 6, 4)
SCHEME_COLUMNS = {"scheme": "{scheme}", "megabytes": "{megabytes}"} | {
    name: f"{{{name}:.3f}}" for name in ("accuracy", "difference", "time")
}
PLACE_COLUMNS = {name: f"{{{name}}}" for name in ("place", "steps", "bits")} | {
    name: f"{{{name}:.3f}}" for name in ("accuracy", "difference")
}


@measurement(quantization=SCHEME_COLUMNS, rounded_activations=PLACE_COLUMNS)
def quantize(
    sheet: Sheet,
    dataset: DataName,
    model: Annotated[
        str,
        typer.Option(help="A name from `vitbook weights list` with a head, or a checkpoint."),
    ] = "vit_small_patch14_focus",
    num_images: SomeImages = None,
    image_size: ImageSize = None,
    batch: Annotated[int, typer.Option(min=1, help="Images at a time, when timed.")] = 8,
    rounds: Annotated[int, typer.Option(min=2, help="In which all models are timed in turn.")] = 20,
    activations: Annotated[
        bool, typer.Option(help="Round activations too, a place at a time: a second measurement.")
    ] = True,
    seed: Seed = 0,
) -> None:
    """Quantize a classifier by every scheme: accuracy, megabytes and time beside float32's."""
    subject = f"{stem(model)}-{dataset}"
    sheet.expect(subject)
    task, settings = task_of(dataset, model, num_images, image_size, seed, sheet.device)
    exact = task.logits(task.model, "float32")
    rows, timed = _schemes(task, exact)
    first = task.batches()[0][:batch]
    with torch.no_grad():
        seconds = interleaved_seconds(
            [lambda each=each: each(first) for each in timed.values()], rounds, label="timing"
        )
    for name, own in zip(timed, seconds, strict=True):
        ratio = ratio_of(own, seconds[0])
        rows[name]["time"] = rounded([ratio.median, ratio.low, ratio.high])
    common = settings | {"interval": "accuracy: Wilson, the rest: bootstrap; 95 %", "seed": seed}
    clock = {"time": f"over float32's, {rounds} rounds in turn, batch {len(first)}"}
    # Before the activations, of which a model may have none to round.
    sheet.write(subject, common | clock, list(rows.values()))
    if activations:
        lines = _activations(sheet, task, exact)
        sheet.write(subject, common | {"weights": "float32"}, lines, "rounded_activations")


def _schemes(task: Task, exact: Tensor) -> tuple[dict[str, dict], dict[str, nn.Module]]:
    """A row for each scheme, and the models that ran; the first is the exact one."""
    rows, models = {}, {"float32": task.model}
    for name in ("float32", *SCHEMES):
        refused = ""
        if name != "float32":
            try:
                models[name] = quantize_model(task.model, name)
            except QuantizationError as error:
                refused = str(error)
        found = dict.fromkeys(("accuracy", "difference", "same_answers"))
        if not refused:
            logits = exact if name == "float32" else task.logits(models[name], name)
            found = task.compared(logits, exact)
        size = stored_bytes(task.model, None if name == "float32" else name)
        rows[name] = {"scheme": name, "megabytes": round(size / 1e6, 3)} | found
        rows[name] |= {"time": None, "refused": refused}
    return rows, models


def _activations(sheet: Sheet, task: Task, exact: Tensor) -> list[dict]:
    def compared(place: str, steps: str, bits: int) -> dict:
        with round_activations(task.model, place, bits, steps):
            logits = task.logits(task.model, f"{place}, {steps}, {bits} bits")
        return {"place": place, "steps": steps, "bits": bits} | task.compared(logits, exact)

    weights = weights_digest(task.model)
    return [
        sheet.once(f"{each} {weights}", compared, *each) for each in product(PLACES, STEPS, BITS)
    ]
