"""What the chapter on convolutions claims, and the runs behind it."""

from dataclasses import replace
from functools import cache
from itertools import product
from math import log

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from vitbook import datasets, runs
from vitbook.runs import Claim, Evidence, Result, Table, get_recipe
from vitbook.training import AtScale

# What the chapter calls a network -> its model for digits.
DIGITS = {
    "shared kernels": "resnet8_digits", "own kernels": "resnet8_unshared_digits",
    "Vision Transformer": "vit_micro_patch2_8", "hybrid": "vit_micro_r8_s2_8",
    "ten blocks": "vit_micro_d10_patch2_8",
}  # fmt: skip
ORDERS = {
    "patches in order": "moved_digits", "patches shuffled": "moved_digits_shuffled",
    "pixels shuffled": "moved_digits_scattered",
}  # fmt: skip
# The same for photographs of 32 pixels.
PHOTOS = {
    "ResNet-20": "resnet20", "hybrid": "vit_mini_r8_s4_32",
    "Vision Transformer": "vit_mini_patch4_32",
}  # fmt: skip
SHARES = {500: 0.01, 1_500: 0.03, 5_000: 0.1, 15_000: 0.3, 50_000: 1.0}
SETS = ("TF-Flowers", "CIFAR-10", "CIFAR-100", "Tiny-ImageNet")
SAME = "The same digits on both sides: the shuffle gives each pixel another position, and no more."
CHEAP = "The ResNet has 20 % more multiply-adds and 0.6 of the parameters."


@cache
def _rows() -> tuple[Result, ...]:
    return tuple(runs.read_all())


def _digits(name: str, data: str) -> list[Result]:
    """Three seeds of 1,320 steps; rows of a shuffle count as rows of the digits in order."""
    rows = runs.select(_rows(), model=DIGITS[name], dataset=data)
    rows = [row for row in rows if row.experiment in ("nearness", "sharing", "stems")]
    return [replace(row, dataset=data.partition("_digits")[0] + "_digits") for row in rows]


def digits_read() -> dict[str, list[float]]:
    """Network -> digits that move and are read, in %, for each of ``ORDERS``; nan: not run."""
    return {
        name: [
            100 * float(np.mean([row.accuracy for row in rows])) if rows else np.nan
            for rows in (_digits(name, data) for data in ORDERS.values())
        ]
        for name in list(DIGITS)[:3]
    }


def nearest_neighbour(data: str = "moved_digits") -> float:
    """Digits read by the nearest training image, in %: a control that no shuffle changes."""
    seen, held_out = (datasets.load(data, split) for split in ("train", "test"))
    fitted = KNeighborsClassifier(1).fit(seen.images.flatten(1), seen.labels)
    return 100 * fitted.score(held_out.images.flatten(1), held_out.labels)


def _photos(name: str, share: float) -> list[Result]:
    return runs.select(_rows(), experiment="data_size", model=PHOTOS[name], share=share)


def photographs(found: AtScale) -> dict[str, list[float]]:
    """Network -> accuracy on CIFAR-10 in %, for each number of photographs in ``SHARES``."""
    return {
        name: [found.accuracy(f"{name}, {photos:,} photographs").mean for photos in SHARES]
        for name in PHOTOS
    }


def evidence() -> Evidence:
    order, shuffled, scattered = ORDERS.values()
    near = Claim(
        "Nearness", "Own kernels at each position read more where neighbours belong together.",
        ("in order", "shuffled"), _digits("own kernels", order), _digits("own kernels", shuffled),
        note=SAME,
    )  # fmt: skip
    sharing = ("shared kernels", "own kernels")
    claims = [
        Claim(
            "Shuffle, digits that move", "A ResNet reads more digits that move in order.",
            ("in order", "shuffled"), _digits(sharing[0], order), _digits(sharing[0], shuffled),
            note=SAME,
        ),
        Claim(
            "Shuffle, digits that stay", "A ResNet reads more digits that stay in order.",
            ("in order", "shuffled"), _digits(sharing[0], "centred_digits"),
            _digits(sharing[0], "centred_digits_shuffled"), note=SAME,
        ),
        Claim(
            "Sharing", "Shared kernels read more digits that move.", sharing,
            *(_digits(name, order) for name in sharing),
            note="Own kernels have 22 times the parameters, and as many multiply-adds.",
        ),
        near,
        Claim(
            "Sharing where it is false", "Shared kernels read fewer digits that move shuffled.",
            sharing, *(_digits(name, shuffled) for name in sharing), -1,
        ),
        Claim(
            "Sharing against nearness", "Sharing is worth more than nearness.", sharing,
            *(_digits(name, order) for name in sharing), than=near,
        ),
        Claim(
            "Shuffle, Vision Transformer", "A Vision Transformer reads more digits in order.",
            ("in order", "shuffled"), *(
                _digits("Vision Transformer", data) for data in (order, shuffled)
            ), note=SAME,
        ),
        *(
            Claim(
                f"Pixels shuffled, {name}", f"A {name} reads more where a patch of 2 × 2 pixels "
                "stays whole.", ("patches shuffled", "pixels shuffled"),
                _digits(kind, shuffled), _digits(kind, scattered), note=SAME,
            )
            for name, kind in (
                ("Vision Transformer", "Vision Transformer"), ("ResNet", "shared kernels"),
            )
        ),
        *_on_stems(),
    ]  # fmt: skip
    for (photos, share), name in product(SHARES.items(), ("ResNet-20", "hybrid")):
        claims.append(
            Claim(
                f"{name[0].upper()}{name[1:]}, {photos:,} photographs",
                f"With {photos:,} photographs of CIFAR-10, the {name} is above the Vision "
                "Transformer.", (name, "Vision Transformer"), _photos(name, share),
                _photos("Vision Transformer", share),
                note=CHEAP if name == "ResNet-20" else "Multiply-adds 12 % more, parameters 11 %.",
            )
        )  # fmt: skip
    return Evidence(claims, [_at_equal_compute(), _poster()])


def _on_stems() -> list[Claim]:
    order = ORDERS["patches in order"]
    rows, sixty = _rows(), runs.read(dataset="digits", recipe=get_recipe("digits"))

    def tuned(model: str, dataset: str) -> list[Result]:
        return [
            row for row in runs.select(rows, model=model, dataset=dataset)
            if row.start.startswith("data_size-")
        ]  # fmt: skip

    sides = ("hybrid", "deeper ViT")
    return [
        Claim(
            "Stem, digits that move",
            "At equal multiply-adds the hybrid reads more digits that move than a deeper ViT.",
            sides, _digits("hybrid", order), _digits("ten blocks", order),
            note="Eight residual layers and four blocks against ten blocks.",
        ),
        *(
            Claim(
                f"{told}, digits that stay", f"The {told.lower()} reads more digits of 8 × 8 "
                "pixels than a ViT of as many multiply-adds.", sides,
                runs.select(sixty, model=ours), runs.select(sixty, model=theirs),
            )
            for told, ours, theirs in (
                ("Hybrid", "vit_micro_r8_s2_8", "vit_micro_d10_patch2_8"),
                ("Larger hybrid", "vit_micro_r14_s2_8", "vit_micro_d13_patch2_8"),
            )
        ),
        *(
            Claim(
                f"Fine-tuned on {told}", f"Fine-tuned on {told} after CIFAR-10, the hybrid is "
                f"{'above' if side > 0 else 'below'} the ViT.", ("hybrid", "ViT"),
                *(tuned(PHOTOS[name], data) for name in ("hybrid", "Vision Transformer")), side,
                reported=runs.reported("R50+ViT-B/16 (poster)", "ViT-B/16 (poster)", told)
                + " (poster).",
            )
            for told, data, side in (
                ("TF-Flowers", "tf_flowers", 1), ("Tiny-ImageNet", "tiny_imagenet", -1),
            )
        ),
    ]  # fmt: skip


def hybrid_leads() -> dict[int, float]:
    """Compute of a hybrid in exaFLOPs -> points above a ViT of equal compute, in the ViT paper.

    The ViT is between two of its table 6 (straight over the logarithm of compute), of those that
    no cheaper one beats.
    """
    cost = {(r["model"], r["epochs"]): r["value"] for r in runs.published(quantity="exaFLOPs")}
    right = {
        (r["model"], r.get("epochs")): 100 * r["value"]
        for r in runs.published(quantity="accuracy", dataset="ImageNet")
    }
    plain, mixed = (
        sorted((cost[key], right[key]) for key in cost if key[0].startswith(family))
        for family in ("ViT", "R50")
    )
    best = [(c, a) for c, a in plain if a == max(b for d, b in plain if d <= c)]
    costs, accuracies = zip(*best, strict=True)
    return {
        c: a - float(np.interp(log(c), np.log(costs), accuracies)) for c, a in mixed
    }  # fmt: skip


def _at_equal_compute() -> Table:
    return Table(
        "Hybrids at equal compute, as printed",
        "Table 6 of the ViT paper: pre-trained on JFT, fine-tuned on ImageNet. The lead is over a "
        "ViT of equal compute, between two of the table.",
        [
            {"hybrid's compute, exaFLOPs": f"{cost:,}", "points": f"{lead:+.1f}".replace("-", "−")}
            for cost, lead in hybrid_leads().items()
        ],
    )


def _poster() -> Table:
    pairs = {
        "from scratch": ("ResNet-56 (poster)", "ViT-Ti (poster)"),
        "fine-tuned": ("R50+ViT-B/16 (poster)", "ViT-B/16 (poster)"),
    }
    lines = [
        {"data set": dataset}
        | {
            f"{' against '.join(pair)}, {how}".replace(" (poster)", ""): runs.reported(
                *pair, dataset
            )
            for how, pair in pairs.items()
        }
        for dataset in SETS
    ]
    (lee,) = runs.published(quantity="accuracy", model="vit_tiny_patch4_32", dataset="CIFAR-10")
    return Table(
        "ResNets and ViTs, as printed",
        "From a project poster. With another recipe, 300 passes, nearly the same ViT-Ti reaches "
        f"{lee['printed']} on CIFAR-10 (Lee et al. 2021): the order of two models holds for "
        "the recipe that both were trained with.",
        lines,
    )
