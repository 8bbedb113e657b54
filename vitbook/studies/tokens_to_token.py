"""What the chapter on tokens of tokens claims, and what it measures."""

from dataclasses import replace
from typing import Annotated

import torch.nn.functional as F
import typer
from jaxtyping import UInt8
from torch import Tensor, nn

from vitbook import datasets, runs
from vitbook import published_counts as counts
from vitbook.runs import Claim, Evidence, Result, Table, difference, get_recipe
from vitbook.runs.measuring import Sheet, measurement
from vitbook.training import evaluate
from vitbook.training.asked import Checkpoints, OtherData, Split, rows_of_checkpoints


def _lines(rows: list[dict]) -> list[dict[str, str]]:
    most = len(rows[0]["accuracy"]) // 2
    return [
        {"run": row["run"]}
        | {f"{right:+d} px": f"{read:.2%}" for right, read in enumerate(row["accuracy"], -most)}
        for row in rows
    ]


@measurement(moves=_lines)
def moves(
    sheet: Sheet,
    checkpoints: Checkpoints,
    most: Annotated[int, typer.Option(help="Pixels, to the right and to the left.")] = 2,
    dataset: OtherData = None,
    split: Split = None,
) -> None:
    """Say how many images are read after a move by each number of pixels, right and left.

    What leaves the image is lost, and zero comes in.
    """
    steps = range(-most, most + 1)

    def row(model: nn.Module, images: datasets.Dataset) -> dict:
        side = images.images.shape[3]
        if not 1 <= most < side:
            raise ValueError(f"--most {most}: expected 1 to {side - 1} for {side} pixels")
        sets = (replace(images, images=moved(images.images, right)) for right in steps)
        return {"accuracy": [round(evaluate(model, each), 6) for each in sets]}

    subject, about, rows = rows_of_checkpoints(sheet, checkpoints, dataset, split, row)
    settings = about | {
        "accuracy": "by pixels moved to the right; what leaves is lost, zero comes in",
        "right": list(steps),
    }
    sheet.write(subject, settings, rows)


def moved(
    images: UInt8[Tensor, "n channels height width"], right: int
) -> UInt8[Tensor, "n channels height width"]:
    """Images whose content lies so many pixels further to the right."""
    far, width = abs(right), images.shape[3]
    return F.pad(images, (far, far))[..., far - right : far - right + width]


SIXTY = "All models learned all digits with one recipe."
# What is put together part by part -> its model.
PARTS = {
    "hard patches": "vit", "windows that overlap": "vit_overlap",
    "two splits, a linear layer between them": "t2t_vit_bare",
    "the token block without attention": "t2t_vit_mlp", "with even attention": "t2t_vit_even",
    "with a Performer: T2T-ViT": "t2t_vit",
}  # fmt: skip
# Models of the paper's figure 1 -> what they are called there.
FIGURE_1 = {
    "ResNet50": "ResNet-50", "ResNet101": "ResNet-101", "ResNet152": "ResNet-152",
    "t2t_vit_14": "T2T-ViT-14", "t2t_vit_19": "T2T-ViT-19", "t2t_vit_24": "T2T-ViT-24",
}  # fmt: skip


def _digits(body: str) -> list[Result]:
    rows = runs.read(dataset="digits", recipe=get_recipe("digits"))
    return runs.select(rows, model=f"{body}_micro_patch2_8")


def evidence() -> Evidence:
    rows = runs.read_all()

    def photos(name: str) -> list[Result]:
        return [
            row for row in rows if row.experiment in ("designs", "data_size")
            and row.model == f"{name}_mini_patch4_32" and row.share == 1
        ]  # fmt: skip

    whole = _digits("t2t_vit")
    claims = [
        Claim(
            "Even attention in the token block",
            "A T2T-ViT whose token block attends evenly reads fewer digits than one with a "
            "Performer.",
            ("even attention", "Performer"), _digits("t2t_vit_even"), whole, -1, note=SIXTY,
        ),
        Claim(
            "Softmax in the token block",
            "A T2T-ViT with softmax in its token block reads more digits than one with a "
            "Performer.",
            ("softmax", "Performer"), _digits("t2t_vit_t"), whole, note=SIXTY,
        ),
        Claim(
            "Digits that lie still",
            "T2T-ViT reads more digits that do not move than a ViT with hard patches.",
            ("T2T-ViT", "hard patches"), whole, _digits("vit"),
            note="T2T-ViT has 6 % more parameters.",
        ),
        Claim(
            "Photographs",
            "After five epochs of CIFAR-10, T2T-ViT is better than hard patches.",
            ("T2T-ViT", "hard patches"), photos("t2t_vit"), photos("vit"),
            reported=runs.reported("T2T-ViT", "vit_tiny_patch4_32", "CIFAR-10")
            + ", after 300 epochs (Lee et al. 2021).",
        ),
    ]  # fmt: skip
    return Evidence(claims, [_part_by_part(), _figure_1(), _multiply_adds()])


def _part_by_part() -> Table:
    (kept,) = runs.measurements("moves", "digits")
    still = kept.settings["right"].index(0)

    def read(body: str, px: int) -> list[float]:  # %, the mean of right and left, for each seed
        found = [row for row in kept.rows if row["model"] == f"{body}_micro_patch2_8"]
        return [50 * (row["accuracy"][still - px] + row["accuracy"][still + px]) for row in found]

    lines, before = [], None
    for part, body in PARTS.items():
        line = {"put in": part, "seeds": str(len(read(body, 1)))}
        for px in (1, 2):
            of = read(body, px)
            line[f"read at {px} px"] = f"{sum(of) / len(of):.1f} %"
            added = before and difference(of, read(before, px), finest=100 / 355)
            line[f"adds at {px} px"] = str(added) if added else "–"
        lines.append(line)
        before = body
    return Table(
        "Digits that move, part by part",
        "Digits moved to the right and to the left, the mean of both, by `vitbook measure moves`. "
        "In brackets 95 % intervals over seeds of what a part adds to the row above, in points; "
        "ten comparisons, not corrected. The larger windows and the token block without attention "
        "add; attention in the block is not seen to.",
        lines,
    )


def _printed(name: str, quantity: str, *where: str) -> dict:
    found = runs.published(quantity=quantity, model=name)
    return next(
        row for row in found
        if all(each in row["source"] for each in where) and row.get("image_size") != 384
    )  # fmt: skip


def _figure_1() -> Table:
    lines = []
    for name, told in FIGURE_1.items():
        ours = name.startswith("t2t")
        where = ("Yuan", "final version" if ours else "comparison with")
        row = _printed(name, "accuracy", *where)
        line = {"model": told, "accuracy": row["printed"], "by T2T-ViT's recipe": "–"}
        if not ours:
            line["by T2T-ViT's recipe"] = _printed(
                name, "accuracy", "Yuan", "trained with the recipe of T2T-ViT"
            )["printed"]
        place = where if ours else ("Yuan",)
        line["multiply-adds"] = _printed(name, "macs", *place)["printed"]
        line["parameters"] = _printed(name, "parameters", *place)["printed"]
        lines.append(line)
    return Table(
        "The lead over ResNets, as printed",
        "From the tables behind the paper's figure 1: accuracy on ImageNet. T2T-ViT's recipe alone "
        "gives a ResNet more than half of what T2T-ViT leads by.",
        lines,
    )


def _multiply_adds() -> Table:
    lines = []
    for size in ("7", "12", "14", "19", "24", "t_14"):
        name = f"t2t_vit_{size}"
        ours = counts.macs(name, None) / 1e9
        said = [
            _printed(name, "macs", where)
            for where in ("second version, structure", "README of the authors' code")
        ]
        agrees = [abs(row["value"] / 1e9 - ours) < 0.051 for row in said]
        lines.append({
            "model": f"`{name}`", "second version": said[0]["printed"],
            "authors' page": said[1]["printed"], "counted": f"{ours:.2f} G",
            "agrees with": " and ".join(
                each for each, yes in zip(("second version", "page"), agrees, strict=True) if yes
            ) or "neither",
        })  # fmt: skip
    return Table(
        "Multiply-adds, printed and counted",
        "Of one image of 224 pixels. *Agrees* means within the rounding, 0.05 G.",
        lines,
    )
