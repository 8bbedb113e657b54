"""Every recipe that ships trains; the published ones are what their sources print."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from vitbook import create_model
from vitbook.datasets import Dataset
from vitbook.errors import UnknownNameError
from vitbook.runs import RECIPES, get_recipe
from vitbook.training import train
from vitbook.training.engine.optimization import learning_rate


def photographs(count: int, size: int) -> Dataset:
    chance = torch.Generator().manual_seed(0)
    return Dataset(
        torch.randint(256, (count, 3, size, size), dtype=torch.uint8, generator=chance),
        torch.arange(count) % 10,
        tuple("abcdefghij"),
        {"name": "noise"},
    )


@pytest.mark.parametrize("name", RECIPES)
def test_ten_steps(name):
    recipe = RECIPES[name]
    short = replace(
        recipe, batch_size=4, epochs=2, epoch_images=20, image_size=0,
        warmup_epochs=min(recipe.warmup_epochs, 1.0),
    )  # fmt: skip
    torch.manual_seed(0)
    model = create_model("vit_mini_d3_patch4_32")
    before = [weight.clone() for weight in model.parameters()]
    steps = []
    model.tokenizer.register_forward_hook(lambda *_: steps.append(model.training))
    found = train(model, photographs(20, 32), short, progress=False)
    assert sum(steps) == 10
    assert math.isfinite(found.curve[-1]["loss"])
    moved = [not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)]
    assert all(moved)


def test_a_linear_decay_falls_in_a_line():
    recipe = get_recipe("vit_pre_training", final_learning_rate=8e-5)
    assert learning_rate(recipe.warmup_epochs, recipe) == pytest.approx(8e-4)
    middle = (recipe.epochs + recipe.warmup_epochs) / 2
    assert learning_rate(middle, recipe) == pytest.approx((8e-4 + 8e-5) / 2)
    assert learning_rate(recipe.epochs, recipe) == pytest.approx(8e-5)
    falls = [learning_rate(0.2 + step / 2, recipe) for step in range(13)]
    gaps = {round(a - b, 12) for a, b in pairwise(falls)}
    assert len(gaps) == 1
    round_way = replace(recipe, decay="cosine")
    assert learning_rate(middle, round_way) == pytest.approx((8e-4 + 8e-5) / 2)
    assert learning_rate(2, round_way) > learning_rate(2, recipe)


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        # Dosovitskiy et al. 2021, table 3, JFT-300M, ViT-B.
        ("vit_pre_training", {"epochs": 7, "batch_size": 4096, "learning_rate": 8e-4,
                              "decay": "linear", "weight_decay": 0.1}),
        # Touvron et al. 2021, table 9, DeiT-B.
        ("deit", {"batch_size": 1024, "learning_rate": 5e-4 * 1024 / 512, "weight_decay": 0.05,
                  "label_smoothing": 0.1, "drop_path": 0.1, "repeats": 3, "erasing": 0.25,
                  "mixup": 0.8, "cutmix": 1.0, "policy": "randaugment"}),
        # Yuan et al. 2021, T2T-ViT-14.
        ("t2t_vit", {"epochs": 310, "batch_size": 512, "learning_rate": 5e-4, "weight_decay": 0.05,
                     "warmup_epochs": 5, "label_smoothing": 0.1, "drop_path": 0.1, "mixup": 0.8,
                     "cutmix": 1.0, "erasing": 0.25}),
        # Lee et al. 2021, SL-ViT, as the authors' code has it.
        ("sl_vit", {"batch_size": 128, "weight_decay": 0.05, "warmup_epochs": 10,
                    "final_learning_rate": 1e-6, "label_smoothing": 0.1, "crop_padding": 4,
                    "flip": True, "erasing": 0.25, "mixup": 1, "cutmix": 1,
                    "mix_probability": 0.5}),
    ],
)  # fmt: skip
def test_a_published_recipe_is_what_is_printed(name, printed):
    recipe = RECIPES[name]
    assert {field: getattr(recipe, field) for field in printed} == pytest.approx(printed)


def test_three_copies_of_each_image_make_the_printed_passes_of_deit():
    recipe = RECIPES["deit"]
    assert recipe.epochs * recipe.repeats == 300
    assert recipe.warmup_epochs * recipe.repeats == pytest.approx(5)


TAUGHT = {"distillation": "soft", "shuffled_teacher": True}
BLIND = {"objective": "simclr", "label_smoothing": 0}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"epoch": 2}, "recipe field 'epoch': did you mean epochs"),
        ({"epochs": 0}, "epochs 0: expected a whole number of at least 1"),
        ({"epochs": True}, "epochs True: expected a whole number"),
        ({"flip": 1}, "flip 1: expected true or false"),
        ({"label_smoothing": 1.0}, "label_smoothing 1.0: expected a number below 1"),
        ({"learning_rate": math.nan}, "learning_rate nan: expected a number above 0"),
        ({"final_learning_rate": 1.0}, "final_learning_rate 1: expected at most the learning"),
        ({"crop_area": 0.0}, "crop_area 0.0: expected a number above 0"),
        ({"erasing": 2.0}, "erasing 2.0: expected a number of at most 1"),
        ({"weight_bits": 1}, "weight_bits 1: expected 2 to 8, or 0"),
        ({"weight_bits": 9}, "weight_bits 9: expected a whole number of at most 8"),
        ({"weight_bits": 4, "pruned": 0.5}, "'pruned': 0.5}: expected one of them"),
        ({"policy": "randaugmnt"}, "unknown policy 'randaugmnt': did you mean randaug"),
        ({"policy": 2}, "policy 2: expected text, or nothing"),
        ({"decay": "linea"}, "did you mean linear"),
        ({"decay": ""}, "decay ''"),
        ({"optimizer": "adam"}, "did you mean adamw"),
        ({"initialization": "xaver"}, "did you mean xavier"),
        ({"layer_decay": math.nan}, "layer_decay nan: expected a number above 0"),
        ({"momentum": 1.0}, "momentum 1.0: expected a number below 1"),
        ({"head_learning_rate": math.inf}, "head_learning_rate is too large"),
        ({"warmup_parts": "head", "warmup_epochs": 0.0}, "without warmup_epochs: give both"),
        ({"sharpness_radius": -0.1}, "sharpness_radius -0.1: expected a number of at least 0"),
        ({"distillation": "sofd"}, "did you mean soft"),
        ({"distillation": "soft", "temperature": 0}, "temperature 0: expected a number above 0"),
        ({"temperature": 3.0}, "temperature 3 with distillation '': only 'soft' has"),
        ({"distillation": "hard", "distillation_share": 1.5}, "1.5: expected a number of at most"),
        ({"shuffled_teacher": True}, "without distillation: set it to 'soft' or"),
        (TAUGHT | {"mixup": 0.2}, "with mixed or repeated images: a mixed image has no one label"),
        ({"objective": "masked_patch"}, "did you mean masked_patches"),
        ({"objective": "mae"}, "label_smoothing with objective 'mae', which knows no labels"),
        (BLIND | {"sharpness_radius": 0.1}, "sharpness_radius with .* looks once a step"),
        (BLIND | {"pool": "mean"}, "pool with objective 'simclr'"),
        (BLIND | {"train_from": "head.classifier"}, "knows no head: nothing of the model would"),
        (BLIND | {"mixup": 0.5}, "mixed images with objective 'simclr'"),
        (BLIND | {"repeats": 2}, "with objective 'simclr', .* repeats to"),
    ],
)
def test_numbers_and_names_that_no_run_can_have(changes, said):
    with pytest.raises((ValueError, UnknownNameError), match=said) as raised:
        get_recipe("digits", **changes)
    assert "\n" not in str(raised.value)


def test_what_a_recipe_is_not_made_of_gets_one_sentence(plain_vitbook):
    plain_vitbook(
        """
        from vitbook.errors import UnknownNameError
        from vitbook.runs import RECIPES, Recipe
        known = vars(RECIPES["digits"])
        for field in known:
            for came in ("a", None, [1], {}, True, 2, 0.5, object()):
                try:
                    Recipe(**known | {field: came})
                except (ValueError, UnknownNameError) as error:
                    assert field in str(error)
        """
    )
