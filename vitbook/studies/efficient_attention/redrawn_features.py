"""Random features that stay the same in training, and such as are drawn anew."""

import torch
from torch import nn

from vitbook import create_model, datasets
from vitbook.datasets import Dataset
from vitbook.layers import Attention, PerformerAttention
from vitbook.runs import get_recipe
from vitbook.runs.measuring import Sheet, measurement
from vitbook.training import evaluate, load_checkpoint, train

MODEL = "performer_vit_micro_patch2_8"
ONCE = f"digits-{MODEL}-digits-seed0"  # comes with the book
EPOCH = 23  # steps
SEEDS, DRAWS = 2, 3


def draw_anew(core: PerformerAttention) -> None:
    """Other directions, of the same kind, in the place of those that it has."""
    count, width = core.directions.shape
    core.directions.copy_(count**0.5 * nn.init.orthogonal_(torch.empty(count, width)))


def redraw_each(core: PerformerAttention, steps: int) -> None:
    """Draw directions anew in training, whenever so many steps are made."""
    made = 0

    def before(module: nn.Module, _: tuple) -> None:
        nonlocal made
        if module.training:
            if made and made % steps == 0:
                draw_anew(module)
            made += 1

    core.register_forward_pre_hook(before)


def cores(model: nn.Module) -> list[PerformerAttention]:
    return [each for each in model.modules() if isinstance(each, PerformerAttention)]


def read_otherwise(model: nn.Module, test: Dataset, seed: int = 0) -> dict:
    """What a model reads with its own directions, with other draws, and with softmax.

    It ends with softmax attention.
    """
    own = round(evaluate(model, test), 6)
    torch.manual_seed(100 + seed)
    others = []
    for _ in range(DRAWS):
        for core in cores(model):
            draw_anew(core)
        others.append(round(evaluate(model, test), 6))
    for block in model.encoder.blocks:
        block.attention.core = Attention()
    return {"own": own, "others": others, "softmax": round(evaluate(model, test), 6)}


@measurement(
    redrawn={
        "features": "{features}", "seed": "{seed}", "its own": "{own:.1%}",
        "others": "{others}", "softmax": "{softmax:.1%}",
    }
)  # fmt: skip
def redrawn(sheet: Sheet) -> None:
    """Train digits with random features, drawn once or anew, and read with others and with softmax.

    Choromanski et al. 2021 draw them anew from time to time; T2T-ViT draws them once.
    """
    sheet.expect("digits")
    data, test = datasets.load("digits", "train"), datasets.load("digits", "test")
    recipe = get_recipe("digits")

    def row(name: str, seed: int) -> dict:
        if name == "drawn once":
            model = load_checkpoint(ONCE).model
        else:
            torch.manual_seed(seed)
            model = create_model(MODEL)
            for core in cores(model):
                redraw_each(core, EPOCH)
            train(model, data, recipe, seed=seed, device=sheet.device, progress=False)
        return {"features": name, "seed": seed} | read_otherwise(model, test, seed)

    asked = [("drawn once", 0), *(("drawn anew each epoch", seed) for seed in range(SEEDS))]
    settings = {
        "model": MODEL, "recipe": recipe.name, "steps an epoch": EPOCH,
        "own": "held-out digits read with the directions of the last step",
        "others": f"with {DRAWS} other draws", "softmax": "with exact softmax in their place",
    }  # fmt: skip
    rows = [sheet.once(f"{name} {seed}", row, name, seed) for name, seed in asked]
    sheet.write("digits", settings, rows)
