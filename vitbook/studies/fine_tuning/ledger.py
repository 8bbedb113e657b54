"""The tuned runs of the chapter: which changes of a recipe the ledger has."""

from collections.abc import Sequence
from functools import cache

from vitbook import datasets, runs
from vitbook.runs import Recipe, Result, get_recipe
from vitbook.runs.planned_run import num_images

NAME, BODY = "vit_small_patch14_focus", "vit_small_patch14_dinov2"
FRESH_RATE = 5e-4
ADAPTERS = {"adapter_rank": 8, "learning_rate": 5e-4}
MINI = "cifar10-vit_mini_patch4_32-quick-seed0"


@cache
def rows() -> tuple[Result, ...]:
    return tuple(runs.read(tuned=True, few=True))


def tuned(
    experiment: str = "fine_tuning_few", start: str = NAME, model: str = BODY, **changes: object
) -> list[Result]:
    """All seeds of a run whose recipe has these changes, in their order; none if it is not run."""
    few = {"image_size": 84, "batch_size": 16} if experiment == "fine_tuning_few" else {}
    wanted = get_recipe("fine_tuning", **few | changes)
    asked = runs.select(rows(), experiment=experiment, model=model)
    found = [row for row in asked if (row.start or "") == start and Recipe(**row.recipe) == wanted]
    return sorted(found, key=lambda row: row.seed)


def fresh() -> list[Result]:
    return tuned(start="", learning_rate=FRESH_RATE)


def told(found: Sequence[Result]) -> str:
    """The spread over seeds, or of one run the luck of its test images."""
    if not found:
        return "not run"
    held_out = num_images(found[0].dataset, datasets.held_out_split(found[0].dataset))
    return str(runs.summary([100 * row.accuracy for row in found], held_out))


def probes() -> dict[str, list[float]]:
    """Logistic regression on frozen features of all flowers: block read -> accuracy, its ends."""
    found = {}
    for probe in runs.measurements("linear_probe"):
        if probe.subject.startswith(f"{NAME}-tf_flowers"):
            block = probe.settings.get("layer", "last").removeprefix("encoder.blocks.")
            read = f"block {int(block) + 1}" if block.isdecimal() else "last block"
            found[f"{read}, {probe.settings['image_size']} px"] = probe.rows[0]["accuracy"]
    return found
