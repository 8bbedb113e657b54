"""What the chapter on attention distance draws: where heads look, and by what they choose."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import matplotlib.pyplot as plt
import seaborn as sns
import torch
from einops import rearrange
from jaxtyping import Float, Int64
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from torch import Tensor, nn

from vitbook.analysis.attention.offsets import sum_by_offset
from vitbook.analysis.capture.calls import AttentionCall
from vitbook.analysis.capture.layout import Pair, token_layout
from vitbook.analysis.capture.streaming import fold_attention
from vitbook.plots.page import for_pages, is_narrow
from vitbook.plots.style import COLORS, INK, finish, fitted, legend_below, named

# Shades of weight, in units of even weight (white): the same in all figures of offsets.
LOWEST, HIGHEST = 1 / 32, 32
SHADES = "PuOr_r"  # two hues that colour-blind readers tell apart
# The last of the parts is what the others leave.
REST = "#D0D0D0"


class OffsetProfile(NamedTuple):
    """Mean weight by offset: rows 2 * rows - 1, columns 2 * columns - 1, no offset in the middle.

    ``weight[..., rows - 1 + dy, columns - 1 + dx]`` is what a patch gives to the patch ``dy`` rows
    below it and ``dx`` columns to its right; ``count`` says how many pairs of patches are so.
    """

    weight: Float[Tensor, "*heads down across"]
    count: Int64[Tensor, "down across"]


def head_offset_profiles(
    model: nn.Module, images: Float[Tensor, "images channels height width"], *, batch_size: int = 8
) -> OffsetProfile:
    """Mean weight that a patch gives to the patch at each offset from it: of every head.

    Over all images and all pairs of patches that lie so; an offset as wide as the grid has one
    pair only. Prefix tokens are cut, and the rows are not brought back to sum 1.

    Returns:
        Weights "layers heads down across".
    """
    grid_size, prefix = token_layout(model, images, grid_size=None, num_prefix_tokens=None)

    def fold(call: AttentionCall) -> OffsetProfile:
        total = 0
        for m in range(call.shape[0]):
            total = total + call.weights(slice(m, m + 1))[0, :, prefix:, prefix:]
        return offset_profile(total, grid_size)

    total = 0
    for layers in fold_attention(model, images, batch_size, fold):
        total = total + torch.stack([profile.weight for profile in layers.values()])
        count = next(iter(layers.values())).count
    return OffsetProfile(total / len(images), count)


def offset_profile(patches: Float[Tensor, "heads queries keys"], grid_size: Pair) -> OffsetProfile:
    """The same of maps between patches."""
    count = sum_by_offset(torch.ones_like(patches[:1]), grid_size)
    rows = 2 * grid_size[0] - 1
    on_grid = "heads (down across) -> heads down across"
    profile = rearrange(sum_by_offset(patches, grid_size) / count, on_grid, down=rows)
    return OffsetProfile(profile, rearrange(count, on_grid, down=rows)[0].long())


@for_pages
def offset_profiles(
    profiles: Mapping[str, Float[Tensor, "down across"]], title: str, columns: int = 5
) -> Figure:
    """Weight by the offset from the patch that asks, which is in the middle of each panel.

    Args:
        profiles: name -> weight in units of even weight, as many offsets up as down.
    """
    width = min(2 if is_narrow() else columns, len(profiles))
    lines = -(-len(profiles) // width)
    figure, axes = plt.subplots(
        lines, width, figsize=(1.4 * width + 0.9, 1.6 * lines + 0.75), squeeze=False,
        sharex=True, sharey=True, layout="constrained",
    )  # fmt: skip
    for axis in axes.flat[len(profiles) :]:
        axis.axis("off")
    for axis, (name, weight) in zip(axes.flat, profiles.items(), strict=False):
        drawn = _draw(axis, weight)
        axis.set_title(name, fontsize=9)
        axis.tick_params(labelsize=9)
    figure.supxlabel("columns to the right", fontsize=10)
    axes[0, 0].set_ylabel("rows down", fontsize=10)
    _bar(figure, drawn, axes)
    return finish(figure, title)


@for_pages
def offset_sheet(
    weight: Float[Tensor, "layers heads down across"],
    shares: Float[Tensor, "layers heads"],
    title: str,
) -> Figure:
    """All heads of a model: a column a layer, in it the head with the largest share on top.

    Args:
        weight: by offset, in units of even weight.
        shares: of each head, written above it with the head's number, counted from 1.
    """
    depth, heads = shares.shape
    figure, axes = plt.subplots(
        heads, depth, figsize=(0.57 * depth + 0.8, 0.74 * heads + 0.7), squeeze=False,
        layout="constrained", dpi=85,
    )  # fmt: skip
    figure.get_layout_engine().set(w_pad=0.015, h_pad=0.03, wspace=0, hspace=0)
    for layer in range(depth):
        order = shares[layer].argsort(descending=True).tolist()
        for axis, head in zip(axes[:, layer], order, strict=True):
            drawn = _draw(axis, weight[layer, head])
            axis.set(xticks=[], yticks=[])
            axis.spines[:].set(color="#BBBBBB", linewidth=0.6)
            share = f"{100 * float(shares[layer, head]):.0f}".replace("-0", "0")
            axis.set_title(f"{head + 1}: {share} %", fontsize=7, pad=2, color=INK)
        axes[-1, layer].set_xlabel(f"layer {layer + 1}", fontsize=8)
    _bar(figure, drawn, axes)
    return finish(figure, title)


@for_pages
def stacked_shares(
    shares: Mapping[str, Float[Tensor, "layers parts"]], parts: Sequence[str], title: str
) -> Figure:
    """A bar a layer, made of its parts; a panel a model.

    A share below zero, as an estimate of nothing may be, is drawn as nothing.

    Args:
        shares: name of the model -> shares that sum to 1.
        parts: their names; the last one is what the others leave, in grey.
    """
    widths = [max(1.2, 0.155 * len(values)) for values in shares.values()]
    rows, widths = (len(widths), [max(widths)]) if is_narrow() else (1, widths)
    figure, axes = plt.subplots(
        rows, len(widths), sharey=True, squeeze=False, layout="constrained",
        figsize=fitted(sum(widths) + 1.5, 2.2 * rows + 1), width_ratios=widths,
    )  # fmt: skip
    colors = [*COLORS[: len(parts) - 1], REST]
    for axis, (name, values) in zip(axes.flat, shares.items(), strict=True):
        drawn = values.clamp_min(0).float().cpu()
        drawn = (drawn / drawn.sum(1, keepdim=True)).numpy()
        layers = range(1, len(drawn) + 1)
        for k, (part, color) in enumerate(zip(parts, colors, strict=True)):
            axis.bar(
                layers, drawn[:, k], 0.85, drawn[:, :k].sum(1), color=color, label=part,
                linewidth=0,
            )  # fmt: skip
        axis.set(title=name, xlabel="layer", ylim=(0, 1), xlim=(0.4, len(drawn) + 0.6))
        pace = 1 if len(drawn) < 9 else round(len(drawn) / 3)
        axis.set_xticks(sorted({1, *layers[pace - 1 :: pace]}))
    for axis in axes[:, 0]:
        axis.set_ylabel("share of the variance")
    legend_below(figure, named(axes[0, 0]))
    sns.despine(figure)
    return finish(figure, title)


def _draw(axis, weight: Tensor):
    """One profile, offsets counted from the middle."""
    down, across = (size // 2 + 0.5 for size in weight.shape)
    shown = weight.float().cpu().clamp_min(LOWEST / 100).numpy()
    return axis.imshow(
        shown, cmap=SHADES, norm=LogNorm(LOWEST, HIGHEST), extent=(-across, across, down, -down)
    )


def _bar(figure: Figure, drawn, axes) -> None:
    bar = figure.colorbar(drawn, ax=axes, shrink=0.9, pad=0.015, extend="both", aspect=25)
    bar.set_label("weight, even weight = 1", fontsize=9)
    bar.ax.tick_params(labelsize=9)
    bar.set_ticks([1 / 32, 1 / 8, 1, 8, 32], labels=["1/32", "1/8", "1", "8", "32"])
    bar.minorticks_off()
