"""What the page of recipes has to download, and the runs behind its advice."""

from dataclasses import asdict

from vitbook import runs
from vitbook.runs import RECIPES, Claim, Evidence, Result, get_recipe

# What the page calls a regulariser -> the recipe's field, and its value.
ALONE = {
    "Dropout of 0.1": ("dropout", 0.1), "Weight decay of 0.05": ("weight_decay", 0.05),
    "Weight decay of 0.3": ("weight_decay", 0.3),
    "Label smoothing of 0.2": ("label_smoothing", 0.2),
    "Stochastic depth of 0.1": ("drop_path", 0.1),
}  # fmt: skip


def table() -> list[dict[str, object]]:
    """A line for each recipe of the library, with every number of it."""
    return [asdict(recipe) for recipe in RECIPES.values()]


def evidence() -> Evidence:
    rows = runs.read_all()
    few = {
        bool(row.start): [row]
        for start, rate in (("vit_small_patch14_focus", 5e-5), ("", 5e-4))
        for row in runs.read(
            few=True, recipe=get_recipe(
                "fine_tuning", image_size=84, batch_size=16, learning_rate=rate
            ), tuned=bool(start),
        )
        if (row.experiment, row.seed, row.start) == ("fine_tuning_few", 0, start)
    }  # fmt: skip
    short = [
        row for row in runs.select(rows, dataset="cifar10", share=1, model="rot_vit_mini_patch4_32")
        if row.recipe["epochs"] == 5 and row.experiment in ("generalisation", "data_size")
    ]  # fmt: skip

    def brief(flip: bool, decay: float) -> list[Result]:
        return [r for r in short if (r.recipe["flip"], r.recipe["weight_decay"]) == (flip, decay)]

    return Evidence((
        Claim(
            "Pretrained weights, 735 flowers", "After four epochs on 735 photographs of flowers, a "
            "pretrained ViT reads more than a fresh one at ten times the rate.",
            ("pretrained", "fresh"), few[True], few[False],
        ),
        Claim(
            "Crops and mirrors, five epochs", "After five epochs on CIFAR-10, crops and mirrors "
            "lower the accuracy of a Rot-ViT.", ("with", "without"),
            brief(True, 0.05), brief(False, 0.05), -1,
        ),
        Claim(
            "Decay and smoothing, five epochs", "After five epochs on CIFAR-10, weight decay and "
            "label smoothing raise the accuracy of a Rot-ViT.", ("with", "without"),
            brief(True, 0.05), brief(True, 0.0),
        ),
        *_alone(rows),
    ))  # fmt: skip


def _alone(rows: list[Result]) -> list[Claim]:
    """Each regulariser beside augmentation and no other, on a fifth of the digits."""
    digits = [
        row for row in runs.select(rows, dataset="digits", share=0.2, model="vit_micro_patch2_8")
        if row.recipe["shift"] and row.recipe["epochs"] == 150
    ]  # fmt: skip

    def having(field: str = "", value: float = 0) -> list[Result]:
        wanted = {field: 0 for field, _ in ALONE.values()} | ({field: value} if field else {})
        return [
            row for row in digits
            if all(row.recipe.get(name, 0) == each for name, each in wanted.items())
        ]  # fmt: skip

    return [
        Claim(
            name, f"On a fifth of the digits, {name[0].lower()}{name[1:]} adds to augmentation.",
            ("with", "augmentation alone"), having(*regulariser), having(),
        )
        for name, regulariser in ALONE.items()
    ]  # fmt: skip
