"""Designs of convolutional networks on Vision Transformers: their claims, counts and redundancy."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from vitbook import datasets, runs
from vitbook import published_counts as counts
from vitbook.analysis import cka, list_blocks
from vitbook.analysis.capture.outputs import outputs_of
from vitbook.devices import to_float64
from vitbook.runs import Claim, Evidence, Result, Table, get_recipe
from vitbook.runs.measuring import Sheet, measurement
from vitbook.training import AtScale
from vitbook.training.asked import Checkpoints, OtherData, Split, rows_of_checkpoints
from vitbook.training.engine.evaluation import as_pixels

# What the chapter calls a design -> its model of equal cost, behind "vit_" or "t2t_vit_".
DESIGNS = {
    "deep and narrow": "dn_equal", "shallow and wide": "sw_equal", "SE": "se",
    "ResNeXt": "resnext", "Ghost": "ghost_equal", "Dense": "dense",
}  # fmt: skip
# The rows of the paper's table of designs, and what the chapter calls them.
PRINTED = {
    "vit_s16_t2t": "plain, ResNeXt", "vit_dn": "deep and narrow", "vit_sw": "shallow and wide",
    "vit_dense": "Dense", "vit_se": "SE", "vit_ghost": "Ghost",
}  # fmt: skip
EQUAL = "All designs take the multiply-adds of the plain model, within 5 %."


def printed(name: str, quantity: str) -> dict:
    """A cell of the paper's table of designs."""
    rows = runs.published(model=name, quantity=quantity)
    return next(row for row in rows if "second" in row["source"] and "6)" in row["source"])


def printed_gain(name: str) -> str:
    """Points of a design above the plain model on ImageNet, as printed."""
    gain = printed(name, "accuracy")["value"] - printed("vit_s16_t2t", "accuracy")["value"]
    return f"{100 * gain:+.1f}".replace("-", "−")


def cheaper() -> dict[str, tuple[float, float]]:
    """Designs of less cost -> parameters in millions and multiply-adds in billions, as printed."""
    return {
        PRINTED[name]: (
            printed(name, "parameters")["value"] / 1e6, printed(name, "macs")["value"] / 1e9
        )
        for name in ("vit_dn", "vit_ghost")
    }  # fmt: skip


def claim_on(design: str, digits: str = "143 digits") -> str:
    """What the claim on a design is called that learns from so many digits."""
    return f"{design[0].upper()}{design[1:]}, {digits}"


def gains(found: AtScale) -> dict[str, tuple[float, float, float]]:
    """Design -> points above the plain model, and the ends of their interval."""
    against = {name: found.compare(name, "plain") for name in DESIGNS}
    return {name: (each.gap, each.low, each.high) for name, each in against.items()}


def costs(found: AtScale) -> dict[str, float]:
    """Design -> its multiply-adds for an image, over those of the plain model."""
    macs = {name: counts.macs(found.rows(name)[0].model, None) for name in ("plain", *DESIGNS)}
    return {name: macs[name] / macs["plain"] for name in DESIGNS}


def evidence() -> Evidence:
    rows = runs.read_all()
    sixty = runs.read(dataset="digits", recipe=get_recipe("digits"))

    def micro(name: str) -> list[Result]:
        return runs.select(sixty, model=f"{name}_micro_patch2_8")

    def tenth(name: str) -> list[Result]:
        return runs.select(rows, experiment="few_digits", model=f"{name}_micro_patch2_8", share=0.1)

    def photos(experiment: str, name: str) -> list[Result]:
        return runs.select(rows, experiment=experiment, model=f"{name}_mini_patch4_32", share=1.0)

    claims = [
        Claim(
            claim_on(name),
            f"With 143 digits and 440 steps, {name} is better than plain at equal cost.",
            (name, "plain"), tenth(f"vit_{design}"), tenth("vit"), note=EQUAL,
        )
        for name, design in DESIGNS.items()
    ]  # fmt: skip
    claims += [
        Claim(
            f"{told} on CIFAR-10",
            f"After five epochs of CIFAR-10, {told} is better than plain.",
            (told, "plain"), photos("designs", f"vit_{design}"), photos("data_size", "vit"),
            note=note,
        )
        for told, design, note in (
            ("SE", "se", EQUAL), ("Half the cost", "dn", "Deep and narrow, as the paper has it."),
        )
    ]  # fmt: skip
    for stem, behind in (("vit", ""), ("t2t_vit", " behind soft splits")):
        for name, design in DESIGNS.items():
            wide = "wide" if stem == "t2t_vit" and design == "sw_equal" else design
            claims.append(
                Claim(
                    claim_on(f"{name}{behind}", "all digits"),
                    f"With all digits, {name}{behind} is better than plain at equal cost.",
                    (name, "plain"), micro(f"{stem}_{wide}"), micro(stem), note=EQUAL,
                )
            )  # fmt: skip
    for layers, kind in (("2 and 4", "half"), ("2 to 4", "rest")):
        claims.append(
            Claim(
                f"Reused maps in layers {layers}",
                f"Layers {layers} of four, trained with the attention maps of the layer before "
                "(2 to 4: of the first), read fewer digits than with maps of their own.",
                ("reused maps", "own maps"), micro(f"vit_reuse_{kind}"), micro("vit"), -1,
                note="Bhojanapalli et al. 2021 report performance that is equivalent or better.",
            )
        )  # fmt: skip
        claims.append(
            Claim(
                f"Reused or even maps in layers {layers}",
                f"Reused maps in layers {layers} are better than even weights there.",
                ("reused maps", "even weights"), micro(f"vit_reuse_{kind}"),
                micro(f"vit_even_{kind}"),
            )
        )  # fmt: skip
    return Evidence(claims, [_repeated(), _counted()])


def _repeated() -> Table:
    (kept,) = runs.measurements("redundancy", "digits")
    return Table(
        "How far channels repeat each other",
        "Of models that learned all digits, by `vitbook measure redundancy`; means over layers. "
        "*Effective channels*: how many independent channels would vary as these do. A low share "
        "of the width is high redundancy. CKA of neighbouring layers is 1 where a layer describes "
        "the images as the one before. Deep and narrow uses a larger share of its channels than "
        "plain, of which it has fewer, and fewer in all.",
        [
            {
                "model": f"`{row['model']}`", "run": row["run"],
                "effective channels": f"{row['channels']:.1f}",
                "share of width": f"{row['share']:.3f}", "CKA": f"{row['likeness']:.3f}",
            }
            for row in kept.rows
        ],
    )  # fmt: skip


def _counted() -> Table:
    lines = []
    for name in PRINTED:
        for found in counts.audit([printed(name, each) for each in counts.QUANTITIES]):
            unit = counts.UNITS[found.row["printed"][-1]]
            lines.append({
                "design": PRINTED[name], "quantity": found.row["quantity"],
                "printed": found.row["printed"], "counted": f"{found.counted / unit:.2f}",
                "verdict": found.verdict,
            })  # fmt: skip
    return Table(
        "Paper against counted",
        "The authors published no code for these networks, so ours are reconstructions: the stages "
        "of Dense and the MLP ratio of shallow and wide were chosen to meet the printed "
        "parameters, and test nothing. Of multiply-adds, 2 % are allowed, as counters differ. All "
        "versions, with reasons: {doc}`../models`.",
        lines,
    )


@measurement(
    redundancy={
        "run": "{run}",
        "effective channels": "{channels:.1f}",
        "share of width": "{share:.3f}",
        "CKA of neighbours": "{likeness:.3f}",
    }
)
def redundancy(
    sheet: Sheet, checkpoints: Checkpoints, dataset: OtherData = None, split: Split = None
) -> None:
    """Count the channels that a layer uses, their share of its width, and how alike layers are.

    Each number is a mean over the blocks of a checkpoint.
    """

    def row(model: nn.Module, images: datasets.Dataset) -> dict:
        found = layer_redundancy(model, as_pixels(images.images, model))
        return {
            "channels": round(found.channels, 4),
            "share": round(found.share, 5),
            "likeness": round(found.likeness, 5),
        }

    subject, about, rows = rows_of_checkpoints(sheet, checkpoints, dataset, split, row)
    settings = about | {
        "channels": "effective, by the participation ratio of the channels' correlations",
        "share": "of them in a layer's channels",
        "likeness": "linear CKA of neighbouring blocks",
        "mean": "over the blocks",
    }
    sheet.write(subject, settings, rows)


@dataclass(frozen=True)
class Redundancy:
    """How far the channels and the layers of a model repeat each other: means over its layers.

    Attributes:
        channels: :func:`effective_channels` of a layer.
        share: these over all channels that the layer has; a low share is high redundancy.
        likeness: :func:`vitbook.analysis.cka` of neighbouring layers; 1 where a layer describes the
            images as the one before it does. nan for a model of one layer.
    """

    channels: float
    share: float
    likeness: float


def layer_redundancy(
    model: nn.Module,
    images: Float[Tensor, "images channels height width"],
    layers: Sequence[str] | None = None,
) -> Redundancy:
    """Measure :class:`Redundancy` of layers whose channels come last, as those of a Transformer do.

    The model runs in evaluation mode, once on all images and once more in batches.

    Args:
        model: any model.
        images: that it takes, 4 at least.
        layers: paths of modules, in their order; by default every block (:func:`list_blocks`).

    Example:
        >>> import torch, vitbook
        >>> from vitbook.studies.cnn_designs import layer_redundancy
        >>> model = vitbook.create_model("vit_micro_patch2_8")
        >>> found = layer_redundancy(model, torch.randn(8, 1, 8, 8))
        >>> 1 <= found.channels <= 64 and 0 < found.share <= 1
        True
    """
    chosen = list_blocks(model) if layers is None else tuple(layers)
    alike = cka(model, model, images, chosen, chosen).diag(1)
    used = outputs_of(
        model, images, chosen, lambda path, out: (effective_channels(out), out.shape[-1])
    )
    counted = [used[layer] for layer in chosen]
    return Redundancy(
        channels=sum(some for some, _ in counted) / len(counted),
        share=sum(some / width for some, width in counted) / len(counted),
        likeness=alike.mean().item(),
    )


@torch.no_grad()
def effective_channels(outputs: Float[Tensor, "*lead channels"]) -> float:
    r"""How many channels of equal variance, independent of each other, would vary as these do.

    .. math:: \Big(\sum_i \lambda_i\Big)^2 \Big/ \sum_i \lambda_i^2

    The :math:`\lambda_i` are the eigenvalues of the channels' correlations (the participation
    ratio), so that a channel's unit does not matter: 1 where all channels say the same, their
    number where no two have anything in common. A channel that never changes is left out.

    Args:
        outputs: of one layer, channels last; every token of every image is one observation.

    Raises:
        ValueError: fewer than two observations, NaN or infinity, or no channel that changes.

    Example:
        >>> import torch
        >>> from vitbook.studies.cnn_designs import effective_channels
        >>> one = torch.arange(5.0)[:, None]
        >>> round(effective_channels(torch.cat([one, 2 * one, -one], dim=1)), 6)
        1.0
    """
    rows = rearrange(to_float64(outputs), "... channels -> (...) channels")
    rows = rows - rows[:1]  # what never changes is 0 to the bit
    if len(rows) < 2 or not rows.isfinite().all():
        raise ValueError(
            f"outputs of shape {tuple(outputs.shape)} with {len(rows)} observations: expected two "
            "or more, all of finite numbers; run the model on more images, or mend it"
        )
    reach = rows.abs().amax(0)
    if not reach.any():
        raise ValueError(
            f"{outputs.shape[-1]} channels that never change: expected one or more that do; run "
            "the model on different images"
        )
    rows = rows[:, reach > 0] / reach[reach > 0]  # before squares: of tiny numbers they are 0
    rows = rows - rows.mean(0)
    rows = rows / rows.square().mean(0).sqrt()
    correlations = rows.mT @ rows / len(rows)
    return (correlations.trace() ** 2 / correlations.square().sum()).item()
