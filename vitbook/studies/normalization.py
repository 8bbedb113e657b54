"""What the chapter on normalization draws, claims, and measures of the stream."""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from statistics import mean
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from vitbook import runs
from vitbook.analysis.capture.record import record_modules
from vitbook.analysis.capture.running import as_model_takes, batches
from vitbook.blocks import list_blocks
from vitbook.devices import to_float64
from vitbook.model_utilities import evaluating
from vitbook.plots import Diagram
from vitbook.runs import Claim, Evidence, Result, Table

NORMS = {"Pre-LN": "vit_micro_patch2_8", "Post-LN": "vit_postnorm_micro_patch2_8"}
# What the chapter calls the weights at the start -> their name in a recipe.
FIRST = {"Xavier's": "xavier", "usual": ""}
RATES, WARMUPS = (0.001, 0.002, 0.004, 0.008), (0.0, 1.0, 4.0)
# Blocks of a Post-LN encoder that are warmed up -> their names in a recipe.
WARMED = {
    "first two": "encoder.blocks.0,encoder.blocks.1",
    "last two": "encoder.blocks.2,encoder.blocks.3",
    "first and third": "encoder.blocks.0,encoder.blocks.2",
    "second and fourth": "encoder.blocks.1,encoder.blocks.3",
    "all four": "encoder.blocks",
    "none, but all that is no block": "tokenizer,prefix,position,head",
}


def blocks() -> Diagram:
    """A Pre-LN block beside a Post-LN block."""
    ways = {
        "Pre-LN": [[["→"], ["LayerNorm", "attention"]], "+",
                   [["→"], ["LayerNorm", "MLP"]], "+"],
        "Post-LN": [[["→"], ["attention"]], "+", "LayerNorm",
                    [["→"], ["MLP"]], "+", "LayerNorm"],
    }  # fmt: skip
    return Diagram([[[Diagram(["→", *parts, "→"], name)] for name, parts in ways.items()]])


class ResidualStream(NamedTuple):
    """Sizes along the encoder.

    Attributes:
        size: root mean square of its numbers, in front of the first block and behind each. A
            LayerNorm with its first weights gives 1.
        change: root mean square of what each block changes, as a share of the size it finds.
    """

    size: Float[Tensor, " blocks_and_one"]
    change: Float[Tensor, " blocks"]


@torch.no_grad()
def residual_stream(
    model: nn.Module, images: Float[Tensor, "images channels height width"]
) -> ResidualStream:
    r"""How large the stream is, and how much of it each block changes.

    .. math::
        \mathrm{size}_\ell = \sqrt{\operatorname{mean}\, z_\ell^2}, \qquad
        \mathrm{change}_\ell = \sqrt{\operatorname{mean}\,(z_\ell - z_{\ell-1})^2}
            \,/\, \mathrm{size}_{\ell-1}

    At the start of training a Pre-LN stream grows with depth and a Post-LN stream does not
    (Xiong et al. 2020, lemma 2).

    Args:
        model: whose blocks take tokens and give as many; it runs in evaluation mode.
        images: normalised as the model takes them.
    """
    blocks = [model.get_submodule(path) for path in list_blocks(model)]
    squares = torch.zeros(3, len(blocks), dtype=torch.float64)

    def keep(block: nn.Module, args: tuple, given: Tensor) -> None:
        taken, given = to_float64(args[0]), to_float64(given)
        means = [part.square().mean() for part in (taken, given, given - taken)]
        squares[:, blocks.index(block)] += torch.stack(means).cpu() * (len(taken) / len(images))

    hooks = [block.register_forward_hook(keep) for block in blocks]
    try:
        with evaluating(model):
            for batch in batches(model, images, 32):
                model(batch)
    finally:
        for hook in hooks:
            hook.remove()
    taken, given, changed = squares.sqrt()
    return ResidualStream(torch.cat([taken[:1], given]), changed / taken)


def gradient_norms(
    model: nn.Module,
    images: Float[Tensor, "images channels height width"],
    labels: Int[Tensor, " images"],
    *,
    part: str,
) -> list[float]:
    r"""Length of the gradient of the mean cross-entropy with respect to one weight of each block.

    .. math:: \Big\lVert \nabla_{\theta_\ell}\, \frac{1}{n} \sum_i L(f_\theta(x_i), y_i) \Big\rVert

    Xiong et al. 2020 compare Post-LN with Pre-LN so, at the start of training, by the last weight
    of each MLP (section 3.3), ``part="mlp.contract.weight"``. The model runs in evaluation mode.
    """
    weights = [block.get_parameter(part) for block in model.encoder.blocks]
    with evaluating(model), torch.enable_grad():
        logits = model(as_model_takes(model, images))
        loss = F.cross_entropy(logits, labels.to(logits.device))
        gradients = torch.autograd.grad(loss, weights)
    return [to_float64(gradient).square().sum().item() ** 0.5 for gradient in gradients]


def gradients_by_depth(
    model: nn.Module,
    images: Float[Tensor, "images channels height width"],
    labels: Int[Tensor, " images"],
    depths: Sequence[int],
    *,
    part: str,
) -> dict[int, list[float]]:
    """:func:`gradient_norms` of a model that is cut to its first few blocks, depth by depth.

    What comes before the blocks and after them stays. So encoders of different depths share all
    weights that they can share, and differ by no other draw of the head.
    """
    blocks, found = model.encoder.blocks, {}
    try:
        for depth in depths:
            model.encoder.blocks = blocks[:depth]
            found[depth] = gradient_norms(model, images, labels, part=part)
    finally:
        model.encoder.blocks = blocks
    return found


@torch.no_grad()
def spread(model: nn.Module, images: Float[Tensor, "images channels height width"]) -> float:
    """Variance over images of each channel of the class token, on average: 0 if all are alike."""
    with evaluating(model):
        return model.features(as_model_takes(model, images))[:, 0].var(dim=0).mean().item()


@torch.no_grad()
def largest_score(model: nn.Module, images: Float[Tensor, "images channels height width"]) -> float:
    """The largest |q k| / root of d of all heads, before the softmax."""
    found: list[float] = []

    def keep(core: nn.Module, args: tuple) -> None:
        q, k = args[:2]
        found.append((q @ k.mT).abs().max().item() / q.shape[-1] ** 0.5)

    cores = {block.attention.core for block in model.encoder.blocks}

    def watch(_: str, module: nn.Module) -> Iterator[RemovableHandle]:
        if module in cores:
            yield module.register_forward_pre_hook(keep)

    with evaluating(model), record_modules(model, watch):
        model(as_model_takes(model, images))
    return max(found)


@cache
def _rows(experiment: str) -> tuple[Result, ...]:
    return tuple(runs.select(runs.read(dataset="digits"), experiment=experiment))


def _trained(norm: str, first: str, rate: float, warmup: float) -> list[Result]:
    """Three seeds that learned digits for twelve epochs."""
    rows = runs.select(_rows("normalization"), model=NORMS[norm])
    wanted = {"initialization": FIRST[first], "learning_rate": rate, "warmup_epochs": warmup}
    return [row for row in rows if wanted.items() <= row.recipe.items()]


def leads() -> dict[tuple[str, float, float], float]:
    """(weights at the start, rate, warm-up) -> points that Post-LN is above Pre-LN."""
    found = {}
    for setting in product(FIRST, RATES, WARMUPS):
        pre, post = (mean(100 * row.accuracy for row in _trained(norm, *setting)) for norm in NORMS)
        found[setting] = post - pre
    return found


def evidence() -> Evidence:
    claims = []
    for (norm, first), reported in {
        ("Post-LN", "Xavier's"): "it fails without one (Xiong et al. 2020, section 3.2).",
        ("Pre-LN", "Xavier's"): "it needs none (Xiong et al. 2020, section 4).",
        ("Post-LN", "usual"): "", ("Pre-LN", "usual"): "",
    }.items():  # fmt: skip
        more = "" if first == "Xavier's" else ", usual weights"
        claims.append(
            Claim(
                f"{norm} without warm-up{more}",
                f"At a rate of 0.008, from {first} weights, {norm} reads fewer digits without a "
                "warm-up than with four epochs of it.", ("no warm-up", "four epochs"),
                *(_trained(norm, first, 0.008, warmup) for warmup in (0.0, 4.0)), -1,
                reported=reported,
            )
        )  # fmt: skip
    for first in FIRST:
        claims.append(
            Claim(
                f"Post-LN beside Pre-LN, {first} weights",
                f"At the recipe's rate of 0.002 and four epochs of warm-up, from {first} weights, "
                "Post-LN reads more digits than Pre-LN.", ("Post-LN", "Pre-LN"),
                *(_trained(norm, first, 0.002, 4.0) for norm in ("Post-LN", "Pre-LN")),
            )
        )  # fmt: skip
    parts = {name: _warmed(name) for name in WARMED}
    claims.append(
        Claim(
            "Warm-up of the first two blocks", "Of a Post-LN encoder of four blocks, a warm-up of "
            "the first two alone reads more than one of the last two alone.",
            ("first two", "last two"), parts["first two"], parts["last two"],
            note="Said before the runs: the half whose warm-up alone reads more, by an interval "
            "that excludes 0, needs it more.",
        )
    )  # fmt: skip
    return Evidence(claims, [_settings(), _warm_parts(parts)])


def _warmed(name: str) -> list[Result]:
    rows = _rows("warmup_parts")
    return [row for row in rows if row.recipe["warmup_parts"] == WARMED[name]]


def _settings() -> Table:
    lines = []
    for (first, rate, warmup), lead in leads().items():
        line = {"weights": first, "rate": f"{rate:g}", "warm-up, epochs": f"{warmup:g}"}
        for norm in NORMS:
            read = sorted(100 * row.accuracy for row in _trained(norm, first, rate, warmup))
            line[norm] = ", ".join(f"{each:.1f}" for each in read)
        lines.append(line | {"Post-LN ahead by": f"{lead:+.1f}".replace("-", "−")})
    return Table(
        "All settings",
        "Digits read, %, after 264 steps, three seeds each, sorted. Xavier's weights have a "
        "deviation of 0.125 at this width, the usual ones 0.02. Single settings of three seeds "
        "decide little. That of twelve settings with usual weights ten or more lean one way has a "
        "chance of 0.04 (sign test, two-sided, as if the settings were independent): a lead.",
        lines,
    )


def _warm_parts(parts: dict[str, list[Result]]) -> Table:
    whole = mean(row.accuracy for row in _trained("Post-LN", "Xavier's", 0.008, 4.0))
    lines = []
    for name, rows in parts.items():
        read = sorted(row.accuracy for row in rows)
        lines.append({
            "warmed up": name, "digits read, %": ", ".join(f"{100 * each:.0f}" for each in read),
            "failed": f"{sum(each < whole / 2 for each in read)} of {len(read)}",
        })  # fmt: skip
    return Table(
        "Which blocks need the warm-up?",
        "A Post-LN encoder of four blocks, Xavier's weights, a rate of 0.008; what is named has "
        "four epochs of warm-up, and the rest has the whole rate from the first step on. A run "
        "fails if it reads under half of what a warm-up of everything reads. The blocks need it, "
        "and one half does not stand in for the other.",
        lines,
    )
