"""What the chapter on small data claims, and the runs behind it."""

from collections.abc import Iterable

from vitbook import runs
from vitbook.runs import Claim, Evidence, Result, get_recipe
from vitbook.studies.small_data_benchmark.compared import (
    MINIS,
    OVERLAP,
    VIT,
    bodies,
    ledger,
    mini_runs,
)
from vitbook.studies.small_data_benchmark.poster import BODIES, tables

MORE = "the number of epochs is what is compared"
PARTS = ("Rotated patches", "The teacher", "Regularisation", "Augmentation")


def left_out(*parts: str) -> list[Result]:
    """The runs on a fifth of the digits that have all of :data:`PARTS` but these: five seeds."""
    model = f"{'' if PARTS[0] in parts else 'rot_'}vit_micro_patch2_8"
    rows = runs.select(ledger(), experiment="generalisation_digits", model=model)
    return [
        row for row in rows
        if bool(row.teacher) != (PARTS[1] in parts)
        and bool(row.recipe["weight_decay"]) != (PARTS[2] in parts)
        and bool(row.recipe["rotation"]) != (PARTS[3] in parts)
    ]  # fmt: skip


def evidence() -> Evidence:
    rows = ledger()
    claims = (
        _body("SL-ViT"),
        _ten_epochs("SL-ViT"),
        _ten_epochs("ResNet-20"),
        _twice_the_epochs("ViT", VIT),
        *_one_left_out(),
        *(_ten_epochs(name) for name in ("Rot-ViT", *OVERLAP)),
        *(_body(name) for name in ("Rot-ViT", "ResNet-56")),
        *_together(),
        *(_twice_the_epochs(*each) for each in MINIS.items()),
        *_larger_photographs(rows),
        *_five_epochs(rows),
        *_flat(rows),
    )
    asked = ("poster", "poster_flowers", "poster_tiny", "generalisation", "sharpness")
    return Evidence(claims, tables(), runs.not_run(asked, rows))


def _ten_epochs(name: str) -> Claim:
    other = "ResNet-56" if name == "ResNet-20" else name
    told = "" if name in OVERLAP else (
        f"{runs.reported(f'{other} (poster)', 'ViT-Ti (poster)', 'CIFAR-10')}; "
        f"{'ResNet-56; ' if other != name else ''}epochs not stated (poster)."
    )  # fmt: skip
    return Claim(
        name, f"After ten epochs over CIFAR-10, {name} is better than the plain ViT.",
        (name, "ViT"), mini_runs((MINIS | OVERLAP)[name], 10), mini_runs(VIT, 10), reported=told,
    )  # fmt: skip


def _body(name: str) -> Claim:
    return Claim(
        f"{name}, 20 epochs", f"After 20 epochs by SL-ViT's recipe, {name} is better than ViT-Ti.",
        (name, "ViT-Ti"), bodies(BODIES[name]), bodies(BODIES["ViT-Ti"]),
        note="The learning rate and the augmentation are those of 300 epochs.",
    )  # fmt: skip


def _twice_the_epochs(name: str, model: str) -> Claim:
    return Claim(
        f"Twice the epochs, {name}", f"{name} is better after ten epochs than after five.",
        ("ten epochs", "five epochs"), mini_runs(model, 10), mini_runs(model, 5), unequal=MORE,
    )  # fmt: skip


def _one_left_out() -> list[Claim]:
    return [
        Claim(
            part, f"{part}: with the three others, it helps on 287 digits.",
            ("all four", f"without {part[0].lower()}{part[1:]}"), left_out(), left_out(part),
            reported="RPT, distillation, regularisation and augmentation improve generalisation "
            "(the poster).",
        )
        for part in reversed(PARTS)
    ]  # fmt: skip


def _together() -> list[Claim]:
    last, others = PARTS[3], PARTS[:3]
    alone = Claim(
        "The other three", "With augmentation, the other three help together.",
        ("all four", "augmentation alone"), left_out(), left_out(*others),
    )  # fmt: skip
    bare = Claim(
        "The other three, without augmentation",
        "Without augmentation, the other three help together.",
        ("the other three", "none"), left_out(last), left_out(*PARTS),
    )  # fmt: skip
    found = [
        Claim("All four", "All four parts help together.", ("all four", "none"), left_out(),
              left_out(*PARTS)),
        alone, bare,
        Claim("They make up for each other", "The other three help more without augmentation.",
              bare.sides, bare.ours, bare.theirs, than=alone, note="In log-odds."),
    ]  # fmt: skip
    for part in others:
        told = f"{part[0].lower()}{part[1:]}"
        sides, ours, theirs = (
            ("all but augmentation", f"also without {told}"), left_out(last), left_out(last, part)
        )  # fmt: skip
        full = Claim(part, "", ("all four", f"without {told}"), left_out(), left_out(part))
        found += [
            Claim(f"{part}, without augmentation", f"Without augmentation, {told} helps.", sides,
                  ours, theirs),
            Claim(f"{part}, more without augmentation",
                  f"Without augmentation, {told} helps more than with it.", sides, ours, theirs,
                  than=full, note="In log-odds."),
        ]  # fmt: skip
    return found


def _answers(experiment: str, rows: Iterable[Result]) -> list[Result | None]:
    """The row of each run of an experiment, which may stand under another's name."""
    made = runs.answers(rows)
    return [made.get(run) for run in runs.get_experiment(experiment).runs]


def _larger_photographs(rows: list[Result]) -> list[Claim]:
    found = []
    for experiment, dataset, size in (("poster_flowers", "TF-Flowers", 128),
                                      ("poster_tiny", "Tiny-ImageNet", 64)):  # fmt: skip
        made = [row for row in _answers(experiment, rows) if row]
        plain = runs.select(made, model=f"vit_mini_patch8_{size}")
        for name, model in (("Rot-ViT", f"rot_vit_mini_patch8_{size}"),
                            ("SL-ViT", f"sl_vit_mini_patch8_{size}"),
                            ("ResNet-20", f"resnet20_{size}")):  # fmt: skip
            if ours := runs.select(made, model=model):
                other = "ResNet-56" if name == "ResNet-20" else name
                told = runs.reported(f"{other} (poster)", "ViT-Ti (poster)", dataset)
                found.append(Claim(
                    f"{name}, {dataset}", f"On {dataset}, {name} is better than the plain ViT.",
                    (name, "ViT"), ours, plain, reported=f"{told}, {other} (poster).",
                ))  # fmt: skip
    return found


def _five_epochs(rows: list[Result]) -> list[Claim]:
    """On CIFAR-10: parts left out, a teacher, and a ResNet with few and with all photographs."""
    everything, *others = _answers("generalisation", rows)
    taught = [
        row for row in runs.select(rows, experiment="poster_distilled")
        if not row.teacher or (row.recipe["distillation"] == "hard" and "resnet20-" in row.teacher
                               and not row.recipe["shuffled_teacher"])
    ]  # fmt: skip
    found = [
        Claim(
            f"{part}, CIFAR-10", f"{part}: it helps in five epochs over CIFAR-10.",
            ("rotated, regularised, augmented", f"without {part[0].lower()}{part[1:]}"),
            [everything], [row],
        )
        for part, row in zip((PARTS[0], PARTS[2], PARTS[3]), others, strict=True)
    ]  # fmt: skip
    found.append(Claim(
        "A teacher, CIFAR-10", "In ten epochs, the answers of a ResNet-20 help DeiT-mini.",
        ("hard answers", "no teacher"), [row for row in taught if row.teacher],
        [row for row in taught if not row.teacher],
    ))  # fmt: skip
    for images in (500, 50_000):
        ours, theirs = (
            runs.select(rows, experiment="data_size", model=model, share=images / 50_000)
            for model in ("resnet20", VIT)
        )
        found.append(Claim(
            f"ResNet-20, {images:,} photographs",
            f"With {images:,} images and 1,950 steps, ResNet-20 is better than the plain ViT.",
            ("ResNet-20", "ViT"), ours, theirs,
        ))  # fmt: skip
    return found


def _flat(rows: list[Result]) -> list[Claim]:
    sixty = runs.read(dataset="digits", recipe=get_recipe("digits"))
    asked = runs.select(rows, experiment="sharpness_digits")
    near, wide, short = (
        [row for row in asked if row.recipe.get("sharpness_radius", 0.0) == radius]
        for radius in (0.05, 0.2, 0.0)
    )
    photos = runs.select(rows, experiment="sharpness", model=VIT)
    two = "a step of SAM takes two gradients, and the numbers of gradients are equal"
    sides = ("SAM", "plain steps")
    steps, gradients = "At equal steps", "At equal gradients"
    micro = runs.select(sixty, model="vit_micro_patch2_8")
    return [
        Claim("SAM, equal steps", f"{steps}, SAM is better on digits.", sides, near, short),
        Claim("SAM, equal gradients", f"{gradients}, SAM is better on digits.", sides, near, micro,
              unequal=two),
        Claim("SAM, radius 0.2", f"{gradients}, SAM with a radius of 0.2 is better on digits.",
              sides, wide, micro, unequal=two),
        Claim("SAM, equal steps, CIFAR-10", f"{steps}, SAM is better on CIFAR-10.", sides, photos,
              mini_runs(VIT, 5)),
        Claim("SAM, equal gradients, CIFAR-10", f"{gradients}, SAM is better on CIFAR-10.", sides,
              photos, mini_runs(VIT, 10), unequal=two),
        *(
            Claim(f"SAM against {name}", f"A ViT with SAM is better than {name} on digits.",
                  ("ViT with SAM", name), near, runs.select(sixty, model=model), unequal=two,
                  reported="with SAM, ViTs outperform ResNets of similar size on ImageNet, from "
                  "scratch (Chen, Hsieh and Gong 2022).")
            for name, model in (("ResNet-8", "resnet8_digits"), ("ResNet-20", "resnet20_digits"))
        ),
    ]  # fmt: skip
