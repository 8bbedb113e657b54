"""What the chapter on rotated patches puts to a model and claims, and the runs behind it."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vitbook import runs
from vitbook.layers.tokens_to_tokens import SOFT_SPLITS, as_image, soft_split, split_grids
from vitbook.runs import Claim, Evidence, Result, Table, get_recipe

SETS = ("TF-Flowers", "CIFAR-10", "CIFAR-100", "Tiny-ImageNet")
LATER = "Seeds 3 to 7 were added after seeds 0 to 2 had been seen."
ONE_START = (
    "The three seeds of a side start from one pretrained model each, and plain's start is better "
    "on CIFAR-10 (see the claim on ten passes): the start may be the reason."
)


class SoftSplits(nn.Module):
    """T2T's three splits, without the attention between them."""

    def forward(self, images: Tensor) -> Tensor:
        for split, grid in zip(SOFT_SPLITS, split_grids(images.shape[2:]), strict=True):
            tokens = soft_split(images, *split)
            images = as_image(tokens, grid)
        return tokens


def shifted(
    images: Float[Tensor, "n c side side"],
    angles: Float[Tensor, "1 copies"],
    patch: int = 2,
    deal: Sequence[int] | Tensor | None = None,
) -> Float[Tensor, "n copies c side side"]:
    """Upright copies; every token's square is moved to where a turn would take it.

    Args:
        patch: side of a token's square, in pixels.
        deal: the token whose move each token is given; by default its own.
    """
    side = images.shape[-1]
    pixels = torch.arange(side, device=images.device) - (side - 1) / 2
    middles = pixels.unfold(0, patch, patch).mean(1)
    tokens_at, pixels_at = (  # x + iy, from the picture's middle
        torch.complex(*torch.meshgrid(at, at, indexing="xy")) for at in (middles, pixels)
    )
    turns = torch.exp(1j * angles[0, :, None].to(images.device)) - 1
    moves = tokens_at.flatten() * turns  # copies tokens
    if deal is not None:
        moves = moves[:, deal]
    moves = moves.unflatten(1, tokens_at.shape)
    moves = moves.repeat_interleave(patch, 1).repeat_interleave(patch, 2)
    # -1 and 1 are the picture's edges.
    grid = torch.view_as_real(pixels_at + moves)[:, None] / (side / 2)
    copies = [
        F.grid_sample(images, each.expand(len(images), -1, -1, -1), align_corners=False)
        for each in grid
    ]
    return torch.stack(copies, dim=1)


def evidence() -> Evidence:
    rows = runs.read_all()
    sixty = runs.read(dataset="digits", recipe=get_recipe("digits"))

    def micro(kind: str) -> list[Result]:
        return runs.select(sixty, model=f"{kind}_patch2_8")

    def asked(experiment: str, model: str, share: float = 1.0) -> list[Result]:
        return runs.select(rows, experiment=experiment, model=model, share=share)

    def short(kind: str, share: float) -> list[Result]:  # 440 steps
        if (kind, share) == ("vit_micro", 1.0):
            return asked("scaling_digits", "vit_micro_patch2_8")
        return asked("few_digits", f"{kind}_patch2_8", share)

    def photos(model: str, share: float) -> list[Result]:
        name = f"{model}_32" if model.endswith("s4") else f"{model}_patch4_32"
        return asked("data_size", name, share)

    sides = ("rotated", "plain")
    few, all_digits = (
        Claim(
            f"{digits:,} digits",
            f"With {told} digits and 440 steps, rotated patches are better than plain ones.",
            sides, short("rot_vit_micro", share), short("vit_micro", share), note=note,
        )
        for digits, told, share, note in ((143, "143", 0.1, LATER), (1442, "all 1,442", 1.0, ""))
    )  # fmt: skip
    photographs = [
        Claim(
            f"{prefix}{images:,} photographs",
            f"On CIFAR-10, with {images:,} images and 1,950 steps, {told} is "
            f"{'better' if claimed > 0 else 'worse'} than plain patches.",
            (told, "plain"), photos(model, images / 50_000), photos("vit_mini", images / 50_000),
            claimed=claimed,
            reported="increasing the receptive field “is only effective for smaller datasets” "
            "(the poster's last sentence).",
        )
        for model, prefix, told, sets in (
            ("rot_vit_mini", "", "Rot-ViT", (500, 50_000, 1_500, 5_000, 15_000)),
            ("vit_mini_r8_s4", "A ResNet in front, ", "a ViT behind a small ResNet", (500, 50_000)),
        )
        for images, claimed in ((images, 1 if images < 10_000 else -1) for images in sets)
    ]  # fmt: skip
    claims = (
        Claim(
            "Sixty epochs",
            "After 1,320 steps on all digits, rotated patches are better than plain ones.",
            sides, micro("rot_vit_micro"), micro("vit_micro"),
        ),
        Claim(
            "The LayerNorm",
            "Behind three equal copies, the tokenizer is better without its LayerNorm.",
            ("copies not turned, no LayerNorm", "copies not turned"),
            micro("rot_vit_micro_zero_no_norm"), micro("rot_vit_micro_zero"), note=LATER,
        ),
        few,
        all_digits,
        *photographs[:2],
        Claim(
            "Fewer digits, larger gain",
            "The gain is larger with 143 digits than with 1,442, at equal steps.",
            sides, few.ours, few.theirs, than=all_digits,
            note="In log-odds, since the two start from different accuracies.",
        ),
        Claim(
            "143 digits, 1,320 steps",
            "With 143 digits and 1,320 steps, rotated patches are better than plain ones.", sides,
            asked("few_digits_long", "rot_vit_micro_patch2_8", 0.1),
            asked("few_digits_long", "vit_micro_patch2_8", 0.1),
        ),
        *_digits_after_sixty_epochs(micro),
        *_few_digits_without_norm(short),
        *photographs[2:],
        *_photographs(rows, asked, photos),
    )  # fmt: skip
    models = ("vit_mini_patch4_32", "rot_vit_mini_patch4_32", "rot_vit_mini_patch8_128")
    missing = runs.not_run(("poster", "poster_flowers"), rows, models)
    return Evidence(claims, _tables(), missing)


def _digits_after_sixty_epochs(micro) -> list[Claim]:
    plain, turned, bare = (
        micro(f"{kind}vit_micro{rest}")
        for kind, rest in (("", ""), ("rot_", ""), ("rot_", "_no_norm"))
    )
    copies = micro("rot_vit_micro_zero_no_norm")
    on = "after 1,320 steps on all digits"
    pairs = (
        ("No LayerNorm", "Rotated patches are better without their LayerNorm", bare, turned,
         "rotated"),
        ("Turned copies", "Without the LayerNorm, turned copies are better than equal ones", bare,
         copies, "copies not turned, no LayerNorm"),
        ("No LayerNorm against plain", "Without the LayerNorm, rotated patches beat plain ones",
         bare, plain, "plain"),
        ("Equal copies against plain", "Without the LayerNorm, equal copies beat plain patches",
         copies, plain, "plain"),
        ("One angle for a batch", "One angle for a whole batch is better than plain patches",
         micro("rot_vit_micro_batch"), plain, "plain"),
        ("One angle for ever", "One angle for ever is better than plain patches",
         micro("rot_vit_micro_fixed"), plain, "plain"),
        ("Border repeated", "Rotated patches with the border repeated outside beat plain ones",
         micro("rot_vit_micro_border"), plain, "plain"),
        ("No class token", "Rotated patches are better without a class token",
         micro("rot_vit_micro_no_class"), turned, "rotated"),
    )  # fmt: skip
    return [
        Claim(name, f"{sentence}, {on}.", (name.lower(), other), ours, theirs)
        for name, sentence, ours, theirs, other in pairs
    ]


def _few_digits_without_norm(short) -> list[Claim]:
    bare, copies = (short(f"rot_vit_micro{kind}_no_norm", 0.1) for kind in ("", "_zero"))
    return [
        Claim(
            "Turned copies, 143 digits",
            "Without the LayerNorm, turned copies are better than equal ones, with 143 digits.",
            ("turned", "not turned"), bare, copies,
        ),
        Claim(
            "No LayerNorm against plain, 143 digits",
            "Without the LayerNorm, rotated patches beat plain ones, with 143 digits.",
            ("rotated, no LayerNorm", "plain"), bare, short("vit_micro", 0.1),
        ),
    ]  # fmt: skip


def _photographs(rows, asked, photos) -> list[Claim]:
    def printed(dataset: str) -> str:
        told = runs.reported("Rot-ViT (poster)", "ViT-Ti (poster)", dataset)
        return f"{told}; passes not stated (poster)."

    tuned = [
        [row for row in asked("checkpoints", f"{kind}_mini_patch4_32") if "poster-" in row.start]
        for kind in ("rot_vit", "vit")
    ]
    sides = ("rotated", "plain")
    return [
        Claim(
            "Ten passes over CIFAR-10", "Rotated patches are better than plain ones.", sides,
            asked("poster", "rot_vit_mini_patch4_32"), asked("poster", "vit_mini_patch4_32"),
            reported=printed("CIFAR-10"),
        ),
        Claim(
            "Five passes over Tiny-ImageNet", "Rotated patches are better than plain ones.", sides,
            asked("poster_tiny", "rot_vit_mini_patch8_64"),
            asked("poster_tiny", "vit_mini_patch8_64"), reported=printed("Tiny-ImageNet"),
        ),
        Claim(
            "No LayerNorm, 500 photographs",
            "Without the LayerNorm, rotated patches are better than plain ones.", sides,
            asked("tokenizer_norm", "rot_vit_mini_no_norm_patch4_32", 0.01),
            photos("vit_mini", 0.01),
        ),
        Claim(
            "No LayerNorm, 50,000 photographs",
            "Without the LayerNorm, rotated patches are worse than plain ones.", sides,
            asked("tokenizer_norm", "rot_vit_mini_no_norm_patch4_32"), photos("vit_mini", 1.0),
            claimed=-1,
        ),
        Claim(
            "Fine-tuned on flowers",
            "After learning CIFAR-10, rotated patches are better than plain ones on TF-Flowers.",
            sides, *tuned, reported="effective for smaller datasets, fine-tuning too (poster).",
            note=ONE_START,
        ),
    ]  # fmt: skip


def overheads() -> dict[int, tuple[float, float, float]]:
    """Pixels a side -> time of a forward pass over plain's: median and 95 % interval."""
    bench = next(
        each for each in runs.measurements("bench") if each.rows[0]["model"] == "vit_tiny_patch4_32"
    )
    timed = next(
        row for row in bench.rows
        if (row["pass"], row["model"]) == ("forward", "rot_vit_tiny_patch4_32")
    )  # fmt: skip
    middle, low, high = timed["speed_over_first"]
    found = {32: (1 / middle, 1 / high, 1 / low)}
    for side in (64, 128):  # of Tiny-ImageNet and of the flowers
        (sized,) = runs.measurements("costs", f"tiny-patch8-{side}")
        found[side] = tuple(sized.rows[1]["time"])
    return found


def _tables() -> tuple[Table, ...]:
    speeds = [
        {
            "": f"{side} px, ours, one processor",
            "time over plain's": f"{middle:.2f} ({low:.2f} to {high:.2f})",
        }
        for side, (middle, low, high) in overheads().items()
    ]
    for dataset in SETS:
        turned, plain = (
            runs.printed(f"{name} (poster)", dataset, "images per second")
            for name in ("Rot-ViT", "ViT-Ti")
        )
        speeds.append(
            {"": f"{dataset}, poster, one A100", "time over plain's": f"{plain / turned:.2f}"}
        )
    quoted = [
        {
            "data set": dataset,
            "rotated against plain": runs.reported("Rot-ViT (poster)", "ViT-Ti (poster)", dataset),
        }
        for dataset in SETS
    ]
    return (
        Table(
            "What the poster prints",
            "Accuracy in percent, from scratch, on one A100 at batch 256. Passes, seeds and the "
            "number of test images are not stated. The chapter on a "
            "[differences](../differences.ipynb) says what such numbers can show.",
            quoted,
        ),
        Table(
            "Time",
            "Of a forward pass: ours with batches taken in turn, the median and its 95 % "
            "interval; the poster's by its images per second. A GPU was not timed by us.",
            speeds,
        ),
    )
