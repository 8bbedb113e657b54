"""What the chapter on efficient attention claims, and what stands behind it."""

from vitbook import runs
from vitbook.runs import Claim, Evidence, Result, Table, get_recipe
from vitbook.studies.efficient_attention.fewer_tokens import BODY
from vitbook.training.transfer.linear_probe import share_interval

SHORTCUTS = {"Linformer": "linformer_vit", "Performer": "performer_vit", "Axial": "axial_vit",
             "Windows": "block_local_vit"}  # fmt: skip
NOT_SCALED = (
    "Specialized attention patterns have not been scaled effectively on accelerators (Dosovitskiy "
    "et al. 2021, section 1), and their axial ResNet is extremely slow on TPUs (appendix D.6)."
)


def merged() -> tuple[dict[int, dict[str, dict]], int]:
    """Tokens that are left -> way to lose the others -> its row; and the photographs asked.

    In a row "agrees" has the ends of its interval, as "accuracy".
    """
    (kept,) = runs.measurements("fewer_tokens", f"{BODY}-tf_flowers")
    images = kept.settings["images"]
    found: dict[int, dict[str, dict]] = {}
    for row in kept.rows:
        agrees = share_interval(round(row["agrees"] * images), images)
        found.setdefault(row["left"], {})[row["way"]] = row | {"agrees": agrees}
    return found, images


def redrawn() -> dict[str, list[dict]]:
    """How random features were drawn in training -> a row for each seed."""
    (kept,) = runs.measurements("redrawn", "digits")
    found: dict[str, list[dict]] = {}
    for row in kept.rows:
        found.setdefault(row["features"], []).append(row)
    return found


def evidence() -> Evidence:
    sixty = runs.read(dataset="digits", recipe=get_recipe("digits"))
    every = runs.read_all()

    def micro(name: str, patch: int = 2) -> list[Result]:
        return runs.select(sixty, model=f"{name}_micro_patch{patch}_8")

    def shrinking(way: str) -> list[Result]:
        model = f"shrinking_vit_{way}_micro_patch1_8"
        return runs.select(every, experiment="shrinking_digits", model=model)

    claims = [
        Claim(
            "Axial at one pixel a token",
            "With 64 tokens of one pixel, axial attention reads more digits than softmax over all "
            "tokens, if both pool their patches.",
            ("axial", "softmax"), micro("axial_vit", 1), micro("vit_gap", 1),
            reported="better than its ViT, for more compute (Dosovitskiy et al. 2021, D.6)",
            note="A pair of axial layers has about twice the parameters of one block.",
        ),
        Claim(
            "Windows at one pixel a token",
            "With 64 tokens of one pixel, windows that never meet read more digits than softmax, "
            "if both pool their patches.",
            ("windows", "softmax"), micro("block_local_vit", 1), micro("vit_gap", 1),
        ),
        Claim(
            "Pooling at one pixel a token",
            "With 64 tokens of one pixel, softmax reads more digits with pooled patches than with "
            "a class token.",
            ("pooled", "class token"), micro("vit_gap", 1), micro("vit", 1),
        ),
    ]  # fmt: skip
    claims += [
        Claim(
            f"{name}, trained", f"{name} attention, trained with, reads fewer digits than softmax.",
            (name, "softmax"), micro(model), micro("vit"), -1,
        )
        for name, model in SHORTCUTS.items()
    ]  # fmt: skip
    claims += [
        Claim(
            "One projection for the whole model",
            "A Linformer with one projection for all layers, heads, keys and values reads fewer "
            "digits than one with two in each layer.",
            ("one", "two a layer"),
            runs.select(sixty, model="linformer_vit_micro_shared_patch2_8"),
            micro("linformer_vit"), -1,
            reported="nearly matches (Wang et al. 2020, section 5.1)",
        ),
    ]  # fmt: skip
    for better, worse in (("conv", "linear"), ("linear", "mean"), ("placed", "linear")):
        told = {
            "conv": "a convolution",
            "linear": "a linear layer over the tokens",
            "mean": "a mean of 2 x 2",
            "placed": "a linear layer and positions told again",
        }
        claims.append(
            Claim(
                f"Shrunk by {told[better]}",
                f"Sequences that shrink from 64 to 16 tokens by {told[better]} read more digits "
                f"than by {told[worse]}.",
                (told[better], told[worse]), shrinking(better), shrinking(worse),
                note="The slides of B. Yu propose the convolution, as a linear layer may lose "
                "position and information." if better == "conv" else "",
            )
        )  # fmt: skip
    return Evidence(claims, [_fewer(), _redrawn(), _used()])


def _percent(interval: list[float]) -> str:
    return "{:.1f} ({:.1f} to {:.1f}) %".format(*(100 * each for each in interval))


def _fewer() -> Table:
    found, images = merged()
    rows = [row for ways in found.values() for row in ways.values()]
    whole = rows[0]["macs"]
    return Table(
        "Fewer tokens",
        f"{BODY}, not trained for it, with the book's head for TF-Flowers, on "
        f"{images} held-out photographs; by `vitbook measure fewer-tokens`. "
        "*Agrees*: answers that are those of the whole model. In brackets 95 % intervals, of the "
        "test images for shares, of 20 interleaved pairs for speed over the whole model. "
        "Multiply-adds are of the body, the search for pairs among them.",
        [
            {
                "way": row["way"], "tokens left": str(row["left"]),
                "accuracy": _percent(row["accuracy"]), "agrees": _percent(row["agrees"]),
                "cosine of the class token": f"{row['cosine']:.3f}",
                "multiply-adds": f"{100 * row['macs'] / whole:.0f} %",
                "speed": "{:.2f} ({:.2f} to {:.2f})".format(*row["speed"]) if row["speed"] else "–",
            }
            for row in rows
        ],
    )  # fmt: skip


def _redrawn() -> Table:
    return Table(
        "Random features drawn once, or anew",
        "Digits read by Performers of 45 features, by `vitbook measure redrawn`: with the features "
        "of the last step, with three other draws, and with exact softmax in their place.",
        [
            {
                "in training": name, "seed": str(row["seed"]), "its own": f"{100 * row['own']:.1f}",
                "other draws": ", ".join(f"{100 * each:.1f}" for each in row["others"]),
                "softmax": f"{100 * row['softmax']:.1f}",
            }
            for name, rows in redrawn().items()
            for row in rows
        ],
    )  # fmt: skip


def _used() -> Table:
    kept = next(
        each for each in runs.measurements("bench")
        if each.rows[0]["model"] == "axial_vit_tiny_patch4_32"
    )  # fmt: skip
    return Table(
        "How much of the processor is used",
        f"Multiply-adds a second over those of a square matrix product in the same rounds, on "
        f'{kept.device}; ViT-Ti, 64 patches. Said of patterns: "{NOT_SCALED}" On accelerators it '
        "was not tried here.",
        [
            {"model": f"`{row['model']}`", "of a matrix product": _percent(row["utilisation"])}
            for row in kept.rows
        ],
    )
