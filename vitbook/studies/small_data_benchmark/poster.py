"""What a poster prints, what its numbers can show, and what the same models cost here."""

from math import hypot

from vitbook import runs
from vitbook.runs import Table
from vitbook.runs.statistics import test_error

SPEED = "images per second"
MODELS = ("ViT-Ti", "Rot-ViT", "SL-ViT", "ResNet-56", "DeiT-Ti")
# The test images: the flowers' are recovered in the chapter from printed percentages.
TESTED = {"TF-Flowers": 367, "CIFAR-10": 10_000, "CIFAR-100": 10_000, "Tiny-ImageNet": 10_000}
TUNED = ("ViT-B/16", "R50+ViT-B/16", "ViT-B/16s", "ViT-B/32")
FLOWERS_TUNED = 512  # test images, recovered likewise
BODIES = dict(
    zip(MODELS, ("vit_tiny_patch4_32", "rot_vit_tiny_patch4_32", "sl_vit_tiny_patch4_32",
                 "resnet56", "deit_tiny_distilled_patch16_224"), strict=True)
)  # fmt: skip


def printed(
    model: str, dataset: str | None = None, quantity: str = "accuracy"
) -> float | int | None:
    """What the poster prints of a model: an accuracy (a share), or ``images per second``.

    None where it prints nothing; from scratch, where it prints a fine-tuned model too.
    """
    found = [
        row for row in runs.published(quantity=quantity, model=f"{model} (poster)")
        if row.get("dataset") == dataset
    ]  # fmt: skip
    found.sort(key=lambda row: "fine-tuned" in row["source"])
    return found[0]["value"] if found else None


def accuracies() -> list[dict[str, str]]:
    """A line for each model: its accuracies in percent, as the poster prints them."""
    return [
        {"": model}
        | {
            name: "–" if (share := printed(model, name)) is None else f"{100 * share:.2f}"
            for name in TESTED
        }
        for model in MODELS
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


def _apart(model: str, other: str, dataset: str, images: int) -> str:
    shares = [100 * printed(each, dataset) for each in (model, other)]
    gap = shares[0] - shares[1]
    luck = 1.96 * hypot(*(test_error(share, images) for share in shares))
    return f"{gap:+.1f}, ±{luck:.1f} by its test images".replace("-", "−")


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
    gaps = [
        {"less ViT-Ti": model}
        | {name: _apart(model, MODELS[0], name, images) for name, images in TESTED.items()}
        for model in MODELS[1:4]
    ]
    tested = TESTED | {"TF-Flowers": FLOWERS_TUNED}
    tuned = [
        {"data set": name, "ViT-B/16s less ViT-B/16": _apart("ViT-B/16s", "ViT-B/16", name, images)}
        for name, images in tested.items()
    ]
    by_set = [
        {"": model} | {name: f"{printed(model, name, SPEED):,}" for name in TESTED}
        for model in MODELS[:2]
    ]
    once = [{"": model, "images a second": f"{printed(model, None, SPEED)}"} for model in TUNED]
    return (
        Table("What the poster prints", "Accuracy in percent, from scratch. Epochs, seeds and "
              "test images are not stated.", accuracies()),
        Table("The poster's differences", "In points. 367 test images of TF-Flowers, as recovered "
              "in the chapter, and 10,000 of the others.", gaps),
        Table("Weights from SAM, fine-tuned", "ViT-B/16s is ViT-B/16 with weights from SAM. "
              f"{FLOWERS_TUNED} test images of TF-Flowers fit these accuracies.", tuned),
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
