"""What a poster prints, and what the same models cost here."""

from collections.abc import Sequence

from vitbook import runs
from vitbook.runs import Table

SPEED = "images per second"
MODELS = ("ViT-Ti", "Rot-ViT", "SL-ViT", "ResNet-56", "DeiT-Ti")
SETS = ("TF-Flowers", "CIFAR-10", "CIFAR-100", "Tiny-ImageNet")
TUNED = ("ViT-B/16", "R50+ViT-B/16", "ViT-B/16s", "ViT-B/32")
BODIES = dict(
    zip(MODELS, ("vit_tiny_patch4_32", "rot_vit_tiny_patch4_32", "sl_vit_tiny_patch4_32",
                 "resnet56", "deit_tiny_distilled_patch16_224"), strict=True)
)  # fmt: skip
AUTHORS = {"ViT-Ti": "vit_tiny_patch4_32", "SL-ViT": "sl_vit_tiny_patch4_32", "T2T-ViT": "T2T-ViT"}


def printed(
    model: str, dataset: str | None = None, quantity: str = "accuracy"
) -> float | int | None:
    """What the poster prints of a model."""
    return runs.printed(f"{model} (poster)", dataset, quantity)


def accuracies(names: Sequence[str] = MODELS) -> list[dict[str, str]]:
    """A line for each model: its accuracies in percent, as the poster prints them."""
    return [
        {"": model}
        | {
            name: "–" if (share := printed(model, name)) is None else f"{100 * share:.2f}"
            for name in SETS
        }
        for model in names
    ]


def costs() -> dict[tuple[str, str], dict]:
    """(model, pass) -> its row of the measurement in turn of the poster's five bodies."""
    bench = next(
        each for each in runs.measurements("bench") if each.rows[0]["model"] == BODIES["ViT-Ti"]
    )
    return {(row["model"], row["pass"]): row for row in bench.rows}


def times() -> list[dict[str, str]]:
    """A line for each model but the first: its time over the plain ViT's, printed and measured."""
    by = costs()

    def over(model: str, kind: str) -> str:
        middle, low, high = by[BODIES[model], kind]["speed_over_first"]
        return f"{1 / middle:.2f} ({1 / high:.2f} to {1 / low:.2f})"

    def poster(model: str) -> str:
        speeds = [printed(each, None, SPEED) for each in (MODELS[0], model)]
        return f"{speeds[0] / speeds[1]:.2f}"

    return [
        {
            "time over ViT-Ti's": model,
            "poster": poster(model),
            "forward here": over(model, "forward"),
            "training step here": over(model, "training step"),
        }
        for model in MODELS[1:]
    ]


def _sharpness() -> list[dict[str, str]]:
    (measured,) = runs.measurements("sharpness", "digits")
    trained, ways = {row.name: row for row in runs.read()}, {}
    for row in measured.rows:
        run = trained[row["run"]]
        radius, epochs = run.recipe.get("sharpness_radius", 0.0), run.recipe["epochs"]
        told = f"SAM, radius {radius}" if radius else "plain"
        ways.setdefault((2 * epochs if radius else epochs, told), []).append(
            row["uphill"] - row["loss"]
        )
    return [
        {
            "step": told,
            "gradients, in epochs": str(gradients),
            "sharpness of each seed": ", ".join(f"{rise:.3f}" for rise in rises),
        }
        for (gradients, told), rises in sorted(ways.items())
    ]


def _arithmetic() -> list[dict[str, str]]:
    by, lines = costs(), []
    for model in MODELS:
        speed, macs = printed(model, None, SPEED), by[BODIES[model], "forward"]["macs_per_image"]
        lines.append({
            "": model, "images a second": f"{speed:,}",
            "million multiply-adds an image, our body": f"{macs / 1e6:,.0f}",
            "billion multiply-adds a second": f"{speed * macs / 1e9:.0f}",
        })  # fmt: skip
    return lines


def tables() -> tuple[Table, ...]:
    """What the evidence page has besides comparisons of runs."""
    by_set = [
        {"": model} | {name: f"{printed(model, name, SPEED):,}" for name in SETS}
        for model in MODELS[:2]
    ]
    once = [{"": model, "images a second": f"{printed(model, None, SPEED)}"} for model in TUNED]
    return (
        Table("What the poster prints", "Accuracy in percent, from scratch. Epochs, seeds and "
              "test images are not stated.", accuracies()),
        Table("What the poster prints, fine-tuned", "Accuracy in percent, pre-trained on ImageNet. "
              "ViT-B/16s is ViT-B/16 with weights from SAM.", accuracies(TUNED)),
        Table("Time, measured in turn", "A time divided by that of ViT-Ti, 16 images, one thread "
              "of a processor, medians and their 95 % intervals.", times()),
        Table("The poster's arithmetic", "An A100 can do 9,750 billion multiply-adds of float32 a "
              "second, by its data sheet. Training takes three times what stands here. So "
              "something other than the models took the time.", _arithmetic()),
        Table("The poster's images a second, by data set", "CIFAR-100 differs from CIFAR-10 in 90 "
              "outputs, yet ViT-Ti is printed slower on it. Such speeds rank no models.", by_set),
        Table("The poster's images a second, fine-tuned", "ViT-B/16s is ViT-B/16 with other "
              "weights, yet it is printed faster.", once),
        Table("Sharpness", "By how much the mean training loss rises after a step of length 0.05 "
              "along the gradient: ViT-micro on digits, three seeds.", _sharpness()),
    )  # fmt: skip
