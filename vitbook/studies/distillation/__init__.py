"""What the chapter on distillation claims, and what its runs show.

`answers` asks a large teacher once. How a student learns from answers belongs in
`training.objectives`.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vitbook import runs
from vitbook.files import data_folder
from vitbook.runs import Claim, Evidence, Result, Table, get_recipe
from vitbook.training.objectives.kept_answers import KeptAnswers, read_answers

DEIT, VIT = "deit_micro_distilled_patch2_8", "vit_micro_patch2_8"
RESNET, OTHER_VIT, FRESH = (
    "digits-resnet8_digits-digits-seed0",
    "digits-vit_micro_patch2_8-digits-seed2",
    "fresh:resnet8_digits",
)
FLOWERS = "vit_mini_patch8_128"
SOFT, HARD = dict(distillation="soft", temperature=3.0), dict(distillation="hard")
TENTH = SOFT | {"distillation_share": 0.1}  # the paper's
ALONE = {"distillation_share": 1.0}  # no labels
AFTER = "The comparison was chosen after the runs had been seen."
# What the four sides of the experiment on flowers are called, in the order of the picture.
SIDES = ("294 labels", "answers, fresh network", "answers, ImageNet's network", "2,939 labels")


def digits(
    teacher: str = "", model: str = DEIT, share: float = 1.0, passes: int = 20, **changes: object
) -> list[Result]:
    """The rows of students of digits with this teacher and these changes of the recipe."""
    wanted = get_recipe("digits", epochs=passes, warmup_epochs=passes / 10, **changes)
    found = runs.read(dataset="digits", recipe=wanted, taught=True, few=True)
    return runs.select(found, model=model, teacher=teacher, share=share)


def few_labels() -> list[Result]:
    """Students of 143 digits with their labels, in as many steps as ``digits`` takes."""
    return runs.select(runs.read_all(), experiment="few_digits", model=VIT, share=0.1)


def flowers() -> dict[str, list[Result]]:
    """The sides of the experiment on photographs, as far as they have been run."""
    rows = runs.select(runs.read_all(), experiment="teacher")
    sides = {
        SIDES[0]: [row for row in rows if row.share < 1],
        SIDES[1]: [row for row in rows if "fresh" in row.teacher],
        SIDES[2]: [row for row in rows if row.teacher and "fresh" not in row.teacher],
        SIDES[3]: [row for row in rows if row.share == 1 and not row.teacher],
    }
    return {name: side for name, side in sides.items() if side}


def teachers() -> dict[str, KeptAnswers]:
    """The two teachers of flowers by the names of :data:`SIDES`."""
    files = sorted((data_folder() / "answers").glob("tf_flowers-*.safetensors"))
    kept = {SIDES[1 if "fresh" in file.stem else 2]: read_answers(file) for file in files}
    return {name: kept[name] for name in SIDES if name in kept}


def spans(sides: dict[str, Sequence[Result]]) -> dict[str, tuple[float, float, float]]:
    """Name -> mean accuracy in %, lowest and highest of the seeds."""
    found = {name: [100 * row.accuracy for row in rows] for name, rows in sides.items()}
    return {name: (sum(each) / len(each), min(each), max(each)) for name, each in found.items()}


@torch.no_grad()
def token_cosines(
    student: nn.Module, images: Float[Tensor, "batch channels height width"]
) -> Float[Tensor, "blocks"]:
    """Mean cosine of class token and distillation token, at the input and after each block."""
    tokens = student.embed(images)
    seen = [tokens]
    for block in student.encoder.blocks:
        seen.append(block(seen[-1]))
    return torch.stack([F.cosine_similarity(each[:, 0], each[:, 1], dim=1).mean() for each in seen])


def evidence() -> Evidence:
    none, smooth = digits(), digits(label_smoothing=0.6)
    soft, hard = digits(RESNET, **SOFT), digits(RESNET, **HARD)
    claims = [
        Claim(
            "Soft answers", "A ResNet's soft answers beside the labels make a better student.",
            ("ResNet, soft", "no teacher"), soft, none,
        ),
        Claim(
            "Answers of the image",
            "The ResNet's answers to the image itself are better than its answers to another "
            "image of the same label.",
            ("ResNet, soft", "shuffled within labels"), soft,
            digits(RESNET, **SOFT, shuffled_teacher=True),
            note="The ResNet learned from smoothed labels, which may wipe out what an image "
            "resembles (Müller et al. 2019).",
        ),
        Claim(
            "Smoother labels", "Labels smoothed by 0.6 instead of 0.2 make a better student.",
            ("smoothed by 0.6", "by 0.2"), smooth, none, note=AFTER,
        ),
        *_flowers(),
        Claim(
            "Digits without labels",
            "A ResNet's answers to 1,442 digits, and no label, are better than 143 labels.",
            ("answers, no label", "143 labels"), digits(RESNET, VIT, **HARD, **ALONE),
            few_labels(), note=f"All runs take 440 steps. {AFTER} The ResNet had learned from all "
            "1,442 labels, so that this saves no label.",
        ),
        Claim(
            "Knowledge beyond softness",
            "The ResNet's soft answers are better than smoother labels.",
            ("ResNet, soft", "smoothed by 0.6"), soft, smooth,
        ),
        Claim(
            "A fresh teacher's soft answers",
            "Soft answers of a network that has learned nothing make a better student.",
            ("fresh, soft", "no teacher"), digits(FRESH, **SOFT), none,
            reported="A poorly trained teacher can help (Yuan et al. 2020).",
            note="A fresh teacher has learned nothing, a poorly trained one a little.",
        ),
        Claim(
            "Hard answers", "A ResNet's hard answers beside the labels make a better student.",
            ("ResNet, hard", "no teacher"), hard, none,
        ),
        Claim(
            "Hard or soft", "Hard answers are better than soft ones at the paper's share.",
            ("hard", "soft, share 0.1"), hard, digits(RESNET, **TENTH),
            reported="Hard answers are better (Touvron et al. 2021, table 3).",
        ),
        *(
            Claim(
                f"ResNet or ViT, {kind}",
                f"A ResNet is a better teacher than a ViT that is right as often, {kind} answers.",
                ("ResNet", "ViT"), digits(RESNET, **way), digits(OTHER_VIT, **way),
                reported="A convolutional teacher is better (Touvron et al. 2021, table 2).",
            )
            for kind, way in (("soft", TENTH), ("hard", HARD))
        ),
        *(
            Claim(
                f"Two heads, {kind}", f"Two heads are better than one, {kind}.",
                ("two heads", "one head"), digits(teacher, **way), digits(teacher, VIT, **way),
                reported="A distillation token helps (Touvron et al. 2021, table 3).",
            )
            for kind, teacher, way in (
                ("soft answers", RESNET, TENTH), ("hard answers", RESNET, HARD),
                ("no teacher", "", {}),
            )
        ),
        Claim(
            "A teacher for 143 digits",
            "With 143 digits, a ResNet's soft answers to the same digits make a better student.",
            ("ResNet, soft", "no teacher"), digits(RESNET, share=0.1, passes=200, **SOFT),
            digits(share=0.1, passes=200),
            note="Here the student is not asked about the other 1,299 digits.",
        ),
        *_cifar10(),
    ]  # fmt: skip
    missing = runs.not_run(("teacher", "distillation", "poster_distilled"))
    return Evidence(claims, _tables(), missing)


def _flowers() -> list[Claim]:
    """As many as both sides have rows for: the runs are long."""
    found = flowers()
    rule = (
        "All runs take 1,000 steps. The rule was written before the runs. Labels are smoothed by "
        "0.1, answers are not."
    )
    asked = (
        ("Flowers without labels", SIDES[2], SIDES[0],
         "Answers of a network that knows ImageNet, and of 294 labels, to all 2,939 flowers are "
         "better than these 294 labels."),
        ("What ImageNet taught", SIDES[2], SIDES[1],
         "They are better than those of a fresh network that saw the same 294 labels."),
        ("A fresh network for flowers", SIDES[1], SIDES[0],
         "The fresh network's answers to all flowers are better than the 294 labels."),
        ("All labels of flowers", SIDES[3], SIDES[2],
         "All 2,939 labels are better than the answers of the network that knows ImageNet."),
    )  # fmt: skip
    return [
        Claim(name, sentence, (ours, theirs), found[ours], found[theirs], note=rule)
        for name, ours, theirs, sentence in asked
        if ours in found and theirs in found
    ]


def _cifar10() -> list[Claim]:
    rows = {}
    for row in runs.select(runs.read_all(), experiment="poster_distilled"):
        way = "shuffled" if row.recipe["shuffled_teacher"] else row.recipe["distillation"]
        rows["ViT" if "vit" in row.teacher else way or "none"] = [row]
    asked = (
        ("hard", "none", "A ResNet-20's hard answers make a better student than labels alone.", 1),
        ("hard", "ViT", "A ResNet-20 is a better teacher than a ViT, hard answers.", 1),
        ("hard", "shuffled", "Its answers to the image are better than shuffled ones.", 1),
        ("soft", "none", "A ResNet-20's soft answers at share 0.1 make a better student.", 1),
    )
    return [
        Claim(f"CIFAR-10, {ours} over {theirs}", f"CIFAR-10, ten passes: {sentence}",
              (ours, theirs), rows[ours], rows[theirs], claimed)
        for ours, theirs, sentence, claimed in asked
    ]  # fmt: skip


def _tables() -> tuple[Table, ...]:
    about = {name: kept.about.provenance for name, kept in teachers().items()}
    rate = {
        model: runs.published(quantity="images per second", model=f"{model} (poster)")[0]
        for model in ("DeiT-Ti", "ViT-Ti")
    }
    reads = {
        model: runs.published(quantity="accuracy", model=f"{model} (poster)", dataset="TF-Flowers")[
            0
        ]
        for model in rate
    }
    return (
        Table(
            "The two teachers of flowers",
            "EfficientNet-Lite0 (Tan 2020) at 224 pixels, frozen; a ridge layer reads its 1,280 "
            "pooled numbers and saw the labels of 294 photographs. Each answered every training "
            "photograph once, uncropped (`vitbook.studies.distillation.answers`).",
            [
                {
                    "network": name, "head": each["head"],
                    "right on its 294": f"{100 * each['accuracy_labelled']:.1f} %",
                    "on the other 2,645": f"{100 * each['accuracy_unlabelled']:.1f} %",
                    "held out": f"{100 * each['accuracy_held_out']:.1f} %",
                }
                for name, each in about.items()
            ],
        ),
        Table(
            "Three ways to write the soft loss",
            "They change what a printed share means. With ten classes, a share of 0.1 in the "
            f"authors' code is {0.1 / (0.1 + 10 * 0.9):.3f} of the paper's.",
            [
                {"written in": "the paper, and here", "the divergence, summed over images and "
                 "classes, is multiplied by": "τ² / images"},
                {"written in": "the authors' code", "the divergence, summed over images and "
                 "classes, is multiplied by": "τ² / (images × classes)"},
            ],
        ),
        Table(
            "DeiT-Ti of a student project",
            "From scratch, one A100, batch 256; data passes are not stated, and DeiT-Ti reads "
            "224 pixels. The rest of its row cannot be read.",
            [
                {"model": model, "images a second": rate[model]["printed"],
                 "TF-Flowers": reads[model]["printed"]}
                for model in rate
            ],
        ),
    )  # fmt: skip
