"""What the chapter on scale claims, and the runs behind it."""

from functools import cache

import torch

from vitbook import runs
from vitbook.blocks import LAST
from vitbook.measure import count_macs
from vitbook.models import create_model
from vitbook.runs import Claim, Evidence, Measurement, Result, Table, get_recipe
from vitbook.runs.planned_run import num_images
from vitbook.runs.tables import interval
from vitbook.studies.scale import printed
from vitbook.training import AtScale

FROZEN = "vit_small_patch14_focus"
READERS = ("pretrained", "fresh weights", "raw pixels")
PHOTOGRAPHS = {"ResNet-20": "resnet20", "ViT": "vit_mini_patch4_32", "hybrid": "vit_mini_r8_s4_32"}
FEW = {"CIFAR-10": ("cifar10-0.2", "cifar10-0.05-8"), "TF-Flowers": ("tf_flowers", "tf_flowers-8")}
# Bodies that learned from a share of Tiny-ImageNet, at equal steps.
UPSTREAM = {"ResNet-20": "resnet20_64", "ViT": "vit_mini_patch8_64"}
SHARES = (0.01, 0.03, 0.1, 0.3, 1.0)
MICRO, UNCHANGED = "vit_micro_patch2_8", "unchanged"  # its role
# Changed -> models of the digits, the cheapest first.
SHAPES = {
    "depth": ("vit_micro_d1_patch2_8", MICRO, "vit_micro_d8_patch2_8", "vit_micro_d16_patch2_8"),
    "width": ("vit_micro_w32_patch2_8", MICRO, "vit_micro_w92_patch2_8", "vit_micro_w128_patch2_8"),
    "MLP width": (MICRO, "vit_micro_mlp400_patch2_8", "vit_micro_mlp960_patch2_8"),
    "patch side": ("vit_micro_patch4_8", MICRO, "vit_micro_patch1_8"),
}


@cache
def ledger() -> list[Result]:
    """All rows."""
    return runs.read_all()


def photographs(model: str, share: float) -> list[Result]:
    """The run of a model on a share of CIFAR-10's training images: 1,950 steps, seed 0."""
    name = PHOTOGRAPHS.get(model, model)
    return runs.select(ledger(), experiment="data_size", model=name, share=share)


def longer(model: str) -> list[Result]:
    """The runs of a model on all of CIFAR-10's training images for 3,900 steps."""
    return runs.select(ledger(), experiment="poster", model=PHOTOGRAPHS[model])


def digits(model: str, epochs: int = 20) -> list[Result]:
    """Three seeds of a model of :data:`SHAPES` after 20 epochs of the digits, or 60."""
    if model == MICRO and epochs == 60:
        return runs.select(runs.read(dataset="digits", recipe=get_recipe("digits")), model=model)
    rows = runs.select(ledger(), experiment="scaling_digits", model=model)
    return [row for row in rows if row.recipe["epochs"] == epochs]


@cache
def _few_shots() -> dict[str, Measurement]:
    return {each.subject: each for each in runs.measurements("few_shot")}


def few_shots(dataset: str) -> list[Measurement]:
    """Frozen features after a few images a class: of the last block, then of block 9."""
    return [_few_shots()[f"{FROZEN}-{name}"] for name in FEW[dataset]]


def block_read(few: Measurement) -> str:
    """Which tokens the linear layer reads, in words."""
    layer = few.settings.get("layer", LAST)
    return "the last block" if layer == LAST else f"block {int(layer.rpartition('.')[2]) + 1}"


def frozen(
    few: Measurement, features: str, classes: int, reader: str = "ridge"
) -> list[tuple[printed.Number, ...]]:
    """(images, accuracy in %, ends of its interval over draws of them) of a reader of features."""
    return [
        (classes * row["shots"], *(100 * share for share in row["accuracy"]))
        for row in few.rows
        if row["features"] == features and row["reader"] == reader
    ]


def by_photographs() -> dict[str, list[tuple[printed.Number, ...]]]:
    """What is trained or read -> (images of CIFAR-10, accuracy in %, maybe its interval)."""
    trained = {
        f"{name}, from scratch": [
            (round(50_000 * share), 100 * photographs(name, share)[0].accuracy) for share in SHARES
        ]
        for name in ("ResNet-20", "ViT")
    }
    *_, few = few_shots("CIFAR-10")
    read = {f"frozen ViT-S, {name}": frozen(few, name, 10) for name in READERS[:2]}
    return trained | read | {"linear layer on pixels": frozen(few, READERS[2], 10)}


def by_upstream(dataset: str, shots: int = 100) -> dict[str, list[tuple[printed.Number, ...]]]:
    """Body -> (photographs that it learned from, accuracy in % once frozen, its interval).

    Args:
        dataset: of :data:`FEW`, that a linear layer learns from ``shots`` images of each class.
    """
    name = FEW[dataset][0]
    curves: dict[str, list[tuple[printed.Number, ...]]] = {}
    for body, model in UPSTREAM.items():
        for row in _upstream(model):
            seen = round(num_images(row.dataset, "train") * row.share)
            read = _few_shots()[f"{row.name}-{name}"]
            for told, features in (("", READERS[0]), (", fresh weights", READERS[1])):
                found = {images: ends for images, *ends in frozen(read, features, 1)}
                curves.setdefault(body + told, []).append((seen, *found[shots]))
    return curves


def _upstream(model: str) -> list[Result]:
    """The runs of a body, the fewest photographs first."""
    rows = runs.select(ledger(), experiment="upstream_size", model=model)
    return sorted(rows, key=lambda row: row.share)


def by_shape(found: AtScale) -> dict[str, list[tuple[printed.Number, ...]]]:
    """What is changed -> (multiply-adds over the unchanged's, accuracy in %, its lowest, highest).

    Without single pixels, which read so few digits that all others would lie on one line.
    """
    costs = {}
    for role in found.planned:
        model = create_model(found.rows(role)[0].model).eval()
        side = model.grid_size[0] * model.patch_size
        costs[role] = count_macs(model, torch.zeros(1, model.spec.channels, side, side))

    def point(role: str) -> tuple[printed.Number, ...]:
        read = [100 * row.accuracy for row in found.rows(role)]
        return costs[role] / costs[UNCHANGED], sum(read) / len(read), min(read), max(read)

    def belongs(role: str, kind: str) -> bool:
        return role == UNCHANGED or role.partition(" ")[2] == kind

    return {kind: [point(role) for role in found.planned if belongs(role, kind)] for kind in SHAPES}


def evidence() -> Evidence:
    deep, wide, narrow = SHAPES["depth"][-1], SHAPES["width"][-1], SHAPES["width"][0]
    coarse, _, fine = SHAPES["patch side"]
    claims = [
        Claim("ResNet-20, 50,000 photographs", _leads(50_000), ("ResNet-20", "ViT"),
              photographs("ResNet-20", 1.0), photographs("ViT", 1.0), note=_OTHER),
        Claim("ResNet-20, twice the steps", "With 50,000 images and 3,900 steps, too, ResNet-20 is "
              "better than the ViT.", ("ResNet-20", "ViT"), longer("ResNet-20"), longer("ViT"),
              note=_OTHER),
        Claim("A quarter of the cost", "At a quarter of the micro's multiply-adds, patches of 4 "
              "pixels read more digits than width 32.", ("4 px", "width 32"), digits(coarse),
              digits(narrow)),
        Claim("Single pixels, 60 epochs", "After 60 epochs, patches of one pixel read fewer digits "
              "than patches of 2.", ("1 px", "2 px"), digits(fine, 60), digits(MICRO, 60), -1),
        Claim("Large patches, 60 epochs", "After 60 epochs, patches of 4 pixels read more digits "
              "than patches of 2.", ("4 px", "2 px"), digits(coarse, 60), digits(MICRO, 60)),
        Claim("Depth or width", "At four times the micro's multiply-adds, depth reads more digits "
              "than width.", ("16 blocks", "width 128"), digits(deep), digits(wide),
              reported="depth helps most, width least (Dosovitskiy et al. 2021, D.2)."),
        Claim("Large patches", "After 20 epochs, patches of 4 pixels read more digits than patches "
              "of 2, at a quarter of the multiply-adds.", ("4 px", "2 px"), digits(coarse),
              digits(MICRO), reported="smaller patches help (Dosovitskiy et al. 2021, D.2)."),
        Claim("Depth or width, twice", "At twice the micro's multiply-adds, depth reads more "
              "digits than width.", ("8 blocks", "width 92"), digits(SHAPES["depth"][2]),
              digits(SHAPES["width"][2])),
        Claim("Depth or width, a quarter", "At a quarter of the micro's multiply-adds, one block "
              "reads fewer digits than width 32.", ("1 block", "width 32"),
              digits(SHAPES["depth"][0]), digits(SHAPES["width"][0]), -1),
        Claim("A wide MLP", "An MLP of 960 numbers reads fewer digits than one of 128, at four "
              "times the multiply-adds.", ("960", "128"), digits(SHAPES["MLP width"][-1]),
              digits(MICRO), -1),
        *(Claim(f"ResNet-20, {images:,} photographs", _leads(images), ("ResNet-20", "ViT"),
                photographs("ResNet-20", share), photographs("ViT", share), note=_OTHER)
          for images, share in ((500, 0.01), (5_000, 0.1))),
        *(Claim(f"Hybrid, {images:,} photographs",
                f"With {images:,} images and 1,950 steps, a hybrid is better than the plain ViT.",
                ("hybrid", "ViT"), photographs("hybrid", share), photographs("ViT", share),
                reported="hybrids lead at small budgets of computation (figure 5).")
          for images, share in ((500, 0.01), (5_000, 0.1), (50_000, 1.0))),
    ]  # fmt: skip
    return Evidence(
        claims,
        [*printed.tables(), _shares(), _shapes(), _bodies(), *_few(), _tasks(), _units()],
        runs.not_run(("upstream_size", "scaling")),
    )  # fmt: skip


_OTHER = "The two differ in depth, parameters and multiply-adds as well."


def _leads(images: int) -> str:
    return f"With {images:,} images and 1,950 steps, ResNet-20 is better than the ViT."


def _shares() -> Table:
    lines = [
        {"model": name} | {
            f"{50_000 * share:,.0f}": f"{100 * photographs(name, share)[0].accuracy:.1f}"
            for share in SHARES
        }
        for name in (*PHOTOGRAPHS, "rot_vit_mini_patch4_32", "sl_vit_mini_patch4_32")
    ]  # fmt: skip
    note = (
        "Accuracy in percent, by the images trained on. All at equal steps, 1,950: 500 images are "
        "seen 500 times each, 50,000 five times. One run each, ±1.0 by its test images; CIFAR-10 "
        "is a copy that was compressed as JPEG."
    )
    return Table("Shares of CIFAR-10", note, lines)


def _bodies() -> Table:
    lines = []
    for body, model in UPSTREAM.items():
        for row in _upstream(model):
            for dataset, (name, *_) in FEW.items():
                read = _few_shots()[f"{row.name}-{name}"]
                learned, fresh = (
                    {shots: ends for shots, *ends in frozen(read, features, 1)}
                    for features in READERS[:2]
                )
                lines.append({
                    "body": body, "photographs": f"{row.share * 100_000:,.0f}", "asked": dataset,
                    "10 a class": interval(learned[10], ".1f"),
                    "100 a class": interval(learned[100], ".1f"),
                    "100, fresh": interval(fresh[100], ".1f"),
                })  # fmt: skip
    return Table(
        "More photographs before",
        "Two bodies learn from shares of Tiny-ImageNet (64 px), each in 1,950 steps, so "
        "that 1,000 photographs are seen 250 times and 100,000 two and a half times. Then they are "
        "frozen, and a linear layer (ridge regression) learns another task from a few images of "
        "each class: mean and 95 % interval over five draws of these. One body each: what another "
        "first state of it would change is not known. Control: the same body with fresh weights.",
        lines,
    )


def _shapes() -> Table:
    lines = []
    for kind, models in SHAPES.items():
        for model in models:
            rows = digits(model)
            told = runs.summary([100 * row.accuracy for row in rows], 355)
            lines.append(
                {
                    "changed": kind,
                    "model": f"`{model}`",
                    "parameters": f"{rows[0].parameters:,}",
                    "20 epochs": str(told),
                }
            )
    return Table("Digits, by shape", "Accuracy on 355 digits in percent; one digit is 0.28 points. "
                 "One learning rate serves all shapes. "
                 "Digits of 8 × 8 pixels neither confirm nor contradict what a paper finds on "
                 "photographs of 224.", lines)  # fmt: skip


def _few() -> list[Table]:
    found = []
    for dataset in FEW:
        *_, few = few_shots(dataset)
        lines = _by_shots({name: frozen(few, name, 1) for name in READERS})
        note = (
            "Accuracy in percent of a linear layer, fitted by ridge regression to frozen features "
            f"of the ViT-S/14 ({few.settings['features']}), with the mean of five draws of the "
            "images and its 95 % interval over them. Controls: the same body with fresh weights, "
            f"and pixels. Images of {few.settings['image_size']} px. One draw of five images a "
            "class can be off by several points. The images of the last training are not named: "
            "those asked here may be among them."
        )
        found.append(Table(f"A few images of each class, {dataset}", note, lines))
    return [*found, *map(_blocks, FEW)]


def _by_shots(curves: dict[str, list[tuple[printed.Number, ...]]]) -> list[dict[str, str]]:
    return [
        {"images of each class": str(points[0][0])}
        | {name: interval(of_draws, ".1f")
           for name, (_, *of_draws) in zip(curves, points, strict=True)}
        for points in zip(*curves.values(), strict=True)
    ]  # fmt: skip


def _blocks(dataset: str) -> Table:
    both = few_shots(dataset)
    curves = {
        f"{block_read(few)}, {called}": frozen(few, READERS[0], 1, reader)
        for reader, called in (("ridge", "linear"), ("neighbours", "neighbours"))
        for few in both
    }
    asked = " and ".join(f"{few.settings['test_images']:,}" for few in both)
    return Table(
        f"Block by block, {dataset}",
        f"The pretrained features of the last block and of block 9, tested on {asked} images. "
        "Neighbours: up to 20 images vote by cosine. The last block was last trained to predict "
        "what draws the eye. By neighbours it is worse with any number of images, by a linear "
        "layer with up to five of each class; with 50 or more it is a little better.",
        _by_shots(curves),
    )


def _tasks() -> Table:
    lines = []
    for found in runs.measurements("task"):
        for row in found.rows:
            accuracy = interval([100 * share for share in row["accuracy"]], ".1f")
            lines.append({
                "group": found.settings["group"], "asked": found.settings["asks"],
                "features": row["features"], "accuracy": accuracy,
            })  # fmt: skip
    return Table(
        "Small tasks after VTAB: how things are arranged",
        "VTAB has natural, specialised and structured tasks; the tables before are natural, "
        "specialised ones (medical, from above) are not at hand. Here 1,000 images are learned "
        "from, over five random halves, from the last block. Averaged patch tokens have lost the "
        "place of a digit; read side by side they have it, and shuffled they lose it again.",
        lines,
    )  # fmt: skip


def _units() -> Table:
    (bench,) = runs.measurements("costs", "imagenet")
    (small,) = (row for row in bench.rows if row["model"] == "vit_small_patch16_224")
    lines = [
        {"model": f"`{row['model']}`", "parameters": f"{row['parameters'] / 1e6:.1f} M",
         "multiply-adds over ViT-S/16's": f"{row['macs'] / small['macs']:.2f}",
         "time over ViT-S/16's": f"{row['time'][0] / small['time'][0]:.2f}"}
        for row in sorted(bench.rows, key=lambda row: row["macs"])
    ]  # fmt: skip
    return Table("Multiply-adds are not time", "One image of 224 px, one thread of a processor "
                 f"({bench.device}; {bench.settings['clock']}).", lines)  # fmt: skip
