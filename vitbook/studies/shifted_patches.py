"""What the chapter on shifted patches counts and claims, and the runs behind its claims."""

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from vitbook import datasets, runs
from vitbook.datasets import Dataset
from vitbook.runs import Claim, Evidence, Result, Table, get_recipe

LATER = "Seeds 3 to 7 of a side were added after seeds 0 to 2 had been seen."


@torch.no_grad()
def others_in_use(
    weights: Float[Tensor, "batch heads queries keys"],
) -> Float[Tensor, " heads"]:
    r"""How many of the *other* tokens a query uses, as a share of them all: 0 to 1.

    A row without its own token is scaled to sum 1; :math:`e^H` of its entropy :math:`H` is then
    the number of tokens that would be used as evenly. So a mask of the diagonal alone changes
    nothing, and sharper scores give less.

    Example:
        >>> import torch
        >>> from vitbook.studies.shifted_patches import others_in_use
        >>> others_in_use(torch.full((1, 2, 5, 5), 1 / 5)).tolist()
        [1.0, 1.0]
    """
    keys = weights.shape[-1]
    own = torch.eye(keys, dtype=torch.bool, device=weights.device)
    others = weights.masked_fill(own, 0)
    others = others / others.sum(-1, keepdim=True)
    entropy = torch.special.entr(others).sum(-1)
    return entropy.exp().mean((0, 2)) / (keys - 1)


def own_share(weights: Float[Tensor, "batch heads queries keys"]) -> Float[Tensor, " heads"]:
    """The weight of a patch on itself in even shares, which are 1."""
    own = weights.diagonal(dim1=-2, dim2=-1)[..., 1:]
    return own.mean((0, 2)) * weights.shape[-1]


def windows(photos: Dataset, size: int) -> Float[Tensor, "n c size size"]:
    """Every third of the windows that a quarter of their side lies between, of 64 photographs."""
    cut = photos.images[:64].unfold(2, size, size // 4).unfold(3, size, size // 4)
    return datasets.normalize(rearrange(cut, "n c r q h w -> (n r q) c h w"))[::3]


def temperatures(model: nn.Module) -> Float[Tensor, "layers heads"]:
    """Of a model with LSA, over their start, one through the root of a head's width."""
    layers = [block.attention for block in model.encoder.blocks]
    roots = [(each.qkv.in_features // each.num_heads) ** 0.5 for each in layers]
    return torch.stack([
        root * each.temperature.detach() for root, each in zip(roots, layers, strict=True)
    ])  # fmt: skip


def evidence() -> Evidence:
    rows = runs.read_all()
    sixty = runs.read(dataset="digits", recipe=get_recipe("digits"))

    def micro(kind: str) -> list[Result]:
        return runs.select(sixty, model=f"{kind}_micro_patch2_8")

    def asked(experiment: str, model: str, share: float = 1.0) -> list[Result]:
        return runs.select(rows, experiment=experiment, model=model, share=share)

    def short(kind: str, share: float) -> list[Result]:  # 440 steps
        experiment = "scaling_digits" if (kind, share) == ("vit", 1.0) else "few_digits"
        return asked(experiment, f"{kind}_micro_patch2_8", share)

    def digits(name: str, kind: str, number: int) -> Claim:
        told, share = (143, 0.1) if number == 143 else ("all 1,442", 1.0)
        return Claim(
            f"{name}{number:,} digits",
            f"With {told} digits and 440 steps, {NAMES[kind]} is better than plain.",
            (NAMES[kind], "plain"), short(kind, share), short("vit", share),
            note=LATER if number == 143 else "",
        )  # fmt: skip

    few, all_digits = digits("", "sl_vit", 143), digits("", "sl_vit", 1442)
    photographs = [
        Claim(
            f"{images:,} photographs",
            f"On CIFAR-10, with {images:,} images and 1,950 steps, SL-ViT is {word} than plain.",
            ("SL-ViT", "plain"), asked("data_size", "sl_vit_mini_patch4_32", images / 50_000),
            asked("data_size", "vit_mini_patch4_32", images / 50_000), claimed=claimed,
        )
        for images, word, claimed in (
            (500, "better", 1), (50_000, "worse", -1), (1_500, "better", 1), (5_000, "better", 1),
            (15_000, "worse", -1),
        )
    ]  # fmt: skip
    claims = (
        Claim(
            "Sixty epochs", "After 1,320 steps on all digits, SL-ViT is better than plain.",
            ("SL-ViT", "plain"), micro("sl_vit"), micro("vit"), note=LATER,
        ),
        few,
        all_digits,
        digits("SPT alone, ", "spt_vit", 143),
        *photographs[:2],
        digits("LSA alone, ", "lsa_vit", 143),
        digits("SPT alone, ", "spt_vit", 1442),
        digits("LSA alone, ", "lsa_vit", 1442),
        Claim(
            "Fewer digits, larger gain",
            "The gain of SL-ViT is larger with 143 digits than with 1,442, at equal steps.",
            few.sides, few.ours, few.theirs, than=all_digits,
            note="In log-odds, since the two start from different accuracies.",
        ),
        *(
            Claim(
                f"{NAMES[kind]}, sixty epochs",
                f"After 1,320 steps on all digits, {NAMES[kind]} is better than plain.",
                (NAMES[kind], "plain"), micro(kind), micro("vit"), note=LATER,
            )
            for kind in ("spt_vit", "lsa_vit")
        ),
        Claim(
            "143 digits, 1,320 steps",
            "With 143 digits and 1,320 steps, SL-ViT is better than plain.", few.sides,
            asked("few_digits_long", "sl_vit_micro_patch2_8", 0.1),
            asked("few_digits_long", "vit_micro_patch2_8", 0.1),
        ),
        *photographs[2:],
        *_photographs(rows, asked),
    )  # fmt: skip
    models = ("vit_mini_patch4_32", "sl_vit_mini_patch4_32", "sl_vit_mini_patch8_128")
    missing = runs.not_run(("poster", "poster_flowers"), rows, models)
    return Evidence(claims, _tables(), missing)


NAMES = {"sl_vit": "SL-ViT", "spt_vit": "SPT alone", "lsa_vit": "LSA alone"}


def _photographs(rows: list[Result], asked) -> list[Claim]:
    def of_start(kind: str) -> list[Result]:
        found = asked("checkpoints", f"{kind}_mini_patch4_32")
        return [row for row in found if "poster-" in row.start]

    sides = ("SL-ViT", "plain")
    bare = asked("tokenizer_norm", "sl_vit_mini_no_norm_patch4_32")
    return [
        Claim(
            "Ten passes over CIFAR-10", "SL-ViT is better than plain.", sides,
            asked("poster", "sl_vit_mini_patch4_32"), asked("poster", "vit_mini_patch4_32"),
            reported=runs.reported("sl_vit_tiny_patch4_32", "vit_tiny_patch4_32", "CIFAR-10")
            + ", after 300 passes (Lee et al. 2021).",
        ),
        Claim(
            "Five passes over Tiny-ImageNet", "SL-ViT is better than plain.", sides,
            asked("poster_tiny", "sl_vit_mini_patch8_64"),
            asked("poster_tiny", "vit_mini_patch8_64"),
            reported=runs.reported("sl_vit_tiny_patch8_64", "vit_tiny_patch8_64", "Tiny-ImageNet")
            + ", after 300 passes (Lee et al. 2021).",
        ),
        Claim(
            "Without its LayerNorm",
            "On CIFAR-10, with 50,000 images and 1,950 steps, SL-ViT is better without its "
            "LayerNorm.",
            ("SL-ViT, no LayerNorm", "SL-ViT"), bare,
            asked("data_size", "sl_vit_mini_patch4_32"),
        ),
        Claim(
            "Without its LayerNorm against plain",
            "There, without its LayerNorm, SL-ViT is worse than plain.",
            ("SL-ViT, no LayerNorm", "plain"), bare, asked("data_size", "vit_mini_patch4_32"),
            claimed=-1,
        ),
        Claim(
            "Fine-tuned on flowers",
            "After learning CIFAR-10, SL-ViT is worse than plain on TF-Flowers.", sides,
            of_start("sl_vit"), of_start("vit"), claimed=-1,
            reported=runs.reported("SL-ViT (poster)", "ViT-Ti (poster)", "TF-Flowers")
            + ", from scratch, passes not stated (poster).",
            note="The seeds of a side start from one pretrained model each, and plain's start is "
            "better on CIFAR-10: the start may be the reason.",
        ),
    ]  # fmt: skip


def _tables() -> tuple[Table, ...]:
    lines = []
    for dataset in ("CIFAR-10", "CIFAR-100", "SVHN", "Tiny-ImageNet", "TF-Flowers"):
        body = "tiny_patch8_64" if dataset == "Tiny-ImageNet" else "tiny_patch4_32"
        authors = (f"sl_vit_{body}", f"vit_{body}", dataset)
        poster = ("SL-ViT (poster)", "ViT-Ti (poster)", dataset)
        lines.append({
            "data set": dataset,
            "the authors, 300 passes": "–" if dataset == "TF-Flowers" else runs.reported(*authors),
            "the poster": "–" if dataset == "SVHN" else runs.reported(*poster),
        })  # fmt: skip
    return (
        Table(
            "What others print",
            "SL-ViT against plain, from scratch. The authors' settings say 100 epochs; the "
            "sampler of [their code](https://github.com/aanna0701/SPT_LSA_ViT) makes each three "
            "passes over the data. The poster states no passes. Our bodies are six to twenty times "
            "smaller than the authors' 2.7 million parameters.",
            lines,
        ),
    )
