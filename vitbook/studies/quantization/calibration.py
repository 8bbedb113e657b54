"""What is won back where a grid is laid, or a code chosen, by what the model really reads."""

from itertools import product
from typing import Annotated

import torch
import typer

from vitbook import datasets
from vitbook.datasets.resizing import resize
from vitbook.model_utilities import weights_digest
from vitbook.models.weights.pretrained import load_pretrained
from vitbook.runs.measuring import Sheet, measurement
from vitbook.studies.quantization.activations import round_activations
from vitbook.studies.quantization.rounding import WAYS, input_squares, round_linear
from vitbook.studies.quantization.task import task_of
from vitbook.training.asked import HeadedData, Seed, SomeImages

NAME = "vit_small_patch14_focus"
WEIGHT_BITS, ACTIVATION_BITS = (4, 3), (6, 4)
# Where values crowd on one side of 0.
ONE_SIDED = ("softmax", "gelu")
COLUMNS = {"accuracy": "{accuracy:.3f}", "difference": "{difference:.3f}"}


@measurement(
    calibrated_weights={"bits": "{bits}", "way": "{way}"} | COLUMNS,
    zero_points={"place": "{place}", "bits": "{bits}"} | COLUMNS,
)
def calibrate(
    sheet: Sheet,
    dataset: HeadedData,
    num_images: SomeImages = None,
    calibration: Annotated[
        int, typer.Option(min=1, help="Training images, of which layers' inputs are kept.")
    ] = 64,
    seed: Seed = 0,
) -> None:
    """Round the pretrained ViT with clipped steps, by its layers' outputs, with a zero point."""
    subject = f"{NAME}-{dataset}"
    sheet.expect(subject)
    task, settings = task_of(dataset, NAME, num_images, None, seed, sheet.device)
    exact, digest = task.logits(task.model, "float32"), weights_digest(task.model)
    learned = datasets.load(dataset, "train").images
    if calibration > len(learned):
        raise ValueError(f"calibration {calibration}: {dataset} has {len(learned)} training images")
    drawn = torch.randperm(len(learned), generator=torch.Generator().manual_seed(seed))
    normalize = load_pretrained(NAME).normalize
    shown = normalize(resize(learned[drawn[:calibration]], settings["image_size"]))
    squares = input_squares(task.model, [each.to(sheet.device) for each in shown.split(32)])

    def weights(bits: int, way: str) -> dict:
        logits = task.logits(round_linear(task.model, bits, way, squares), f"{way}, {bits} bits")
        return {"bits": bits, "way": way} | task.compared(logits, exact)

    def activations(place: str, bits: int) -> dict:
        with round_activations(task.model, place, bits, zero_point=True):
            logits = task.logits(task.model, f"{place}, {bits} bits")
        return {"place": place, "bits": bits} | task.compared(logits, exact)

    common = settings | {"interval": "accuracy: Wilson, difference: bootstrap; 95 %", "seed": seed}
    told = {"calibration": f"{calibration} training images", "steps": "one a row of a weight"}
    rows = [sheet.once(f"{digest} {each}", weights, *each) for each in product(WEIGHT_BITS, WAYS)]
    sheet.write(subject, common | told, rows)
    rows = [
        sheet.once(f"{digest} {each}", activations, *each)
        for each in product(ONE_SIDED, ACTIVATION_BITS)
    ]
    told = {"steps": "one for a whole batch", "weights": "float32"}
    sheet.write(subject, common | told, rows, "zero_points")
