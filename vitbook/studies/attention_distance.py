"""What the chapter on attention distance draws and measures: where heads look, and by what."""

from collections.abc import Mapping
from typing import NamedTuple

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int64
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from torch import Tensor, nn

from vitbook import analysis, datasets, runs
from vitbook.analysis.attention.offsets import sum_by_offset
from vitbook.analysis.capture.calls import AttentionCall
from vitbook.analysis.capture.layout import Pair, token_layout
from vitbook.analysis.capture.streaming import fold_attention
from vitbook.model_utilities import weights_digest
from vitbook.models import create_model
from vitbook.models.weights.pretrained import load_pretrained
from vitbook.plots.page import for_pages, is_narrow
from vitbook.plots.style import finish
from vitbook.runs import Evidence, Table
from vitbook.runs.measuring import Sheet, measurement
from vitbook.training import load_checkpoint

# Shades of weight, in units of even weight (white): the same in all figures of offsets.
LOWEST, HIGHEST = 1 / 32, 32
SHADES = "PuOr_r"  # two hues that colour-blind readers tell apart


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
        for along in (axis.xaxis, axis.yaxis):
            along.get_major_locator().set_params(integer=True)  # no offset of 2.5
    figure.supxlabel("columns to the right", fontsize=10)
    axes[0, 0].set_ylabel("rows down", fontsize=10)
    _bar(figure, drawn, axes)
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


def patches_in_use(
    weights: Float[Tensor, "images heads queries keys"],
) -> Float[Tensor, " heads"]:
    """How many patches even weight would need for the entropy of a row; behind one class token."""
    patches = weights[..., 1:, 1:]
    share = patches / patches.sum(-1, keepdim=True)
    return torch.special.entr(share).sum(-1).exp().mean((0, 2))


def next_patch(
    weights: Float[Tensor, "images heads queries keys"], grid_size: Pair
) -> Float[Tensor, "heads 3 3"]:
    """Share of patches whose largest weight falls on the next patch in each direction.

    ``[:, 1 + dy, 1 + dx]``; the weight of a patch on itself is left out, and the middle is 0. At
    the edge of the grid a patch has no next one in some directions. Behind one class token.
    """
    _, columns = grid_size
    patches = weights[..., 1:, 1:].clone()
    patches.diagonal(dim1=-2, dim2=-1).zero_()
    most, own = patches.argmax(-1), torch.arange(patches.shape[-1], device=weights.device)
    down, right = most // columns - own // columns, most % columns - own % columns
    where = torch.where((down.abs() <= 1) & (right.abs() <= 1), 3 * down + right + 4, 9)
    shares = F.one_hot(where, 10).float().mean((0, 2))[:, :9]
    return rearrange(shares, "heads (down right) -> heads down right", down=3)


def shuffled(
    images: Float[Tensor, "images channels height width"], patch: int
) -> Float[Tensor, "images channels height width"]:
    """The patches of each image, in an order of its own."""
    cut = rearrange(images, "n c (r p) (q s) -> n (r q) c p s", p=patch, s=patch)
    cut = torch.stack([each[torch.randperm(len(each))] for each in cut])
    return rearrange(cut, "n (r q) c p s -> n c (r p) (q s)", r=images.shape[-2] // patch)


PRETRAINED = "vit_small_patch14_focus"
SMALL = {
    "flowers": ("tf_flowers-vit_mini_patch8_128-flowers-seed0", 128),
    "CIFAR-10": ("cifar10-vit_mini_patch4_32-quick-seed0", 32),
}


@measurement(
    looks={
        "model": "{model}", "layer": "{layer}", "distance": "{distance:.2f}",
        "class token": "{class_token:.2f}", "offset": "{offset:.2f}", "place": "{place:.2f}",
        "content": "{content:.2f}", "next patch, best head": "{next_patch:.2f}",
    }
)  # fmt: skip
def looks(sheet: Sheet) -> None:
    """Say how far heads look, and how much of it offset, place and content explain.

    On nine photographs: the pretrained ViT, as it is and with the patches of each photograph
    shuffled, two small models, and the first with fresh weights.
    """
    sheet.expect(PRETRAINED)
    real, photos = load_pretrained(PRETRAINED), datasets.load("photos", "all", image_size=224)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        images = real.normalize(photos.images)
        fresh = create_model("vit_small_patch14_dinov2", image_size=224, num_classes=0)
        cases = {
            "pretrained": (real.model, images), "fresh": (fresh, images),
            "patches shuffled": (real.model, shuffled(images, 14)),
        }  # fmt: skip
    for name, (run, size) in SMALL.items():
        small = datasets.load("photos", "all", image_size=size).images
        cases[name] = (load_checkpoint(run).model, datasets.normalize(small))
    rows = []
    for name, (model, images) in cases.items():
        even = analysis.uniform_attention_distance(model.grid_size, model.patch_size)
        distance = analysis.mean_attention_distance(model, images) / even
        on_token = analysis.mean_weight_on_prefix(model, images)
        shares = analysis.head_variance_parts(model, images).shares.mean(1)
        nearest = analysis.by_layer(
            model, images, lambda weights, grid=model.grid_size: next_patch(weights, grid)
        )
        for layer in range(len(distance)):
            numbers = {
                "distance": distance[layer].mean(), "class_token": on_token[layer].mean(),
                **dict(zip(analysis.PARTS, shares[layer], strict=True)),
                "next_patch": nearest[layer].max(),
            }  # fmt: skip
            rows.append(
                {"model": name, "layer": layer + 1, "near": int((distance[layer] < 0.5).sum())}
                | {key: round(value.item(), 4) for key, value in numbers.items()}
            )
    settings = {
        "distance": "mean of the heads, even attention = 1", "near": "heads below 0.5",
        "shares": "of the variance of attention (analysis.variance_parts), mean of the heads",
        "next_patch": "largest share, over heads and directions, of patches whose largest weight "
        "on another patch falls on the next patch in that direction",
        "images": "nine photographs", "weights": weights_digest(real.model),
    }  # fmt: skip
    sheet.write(PRETRAINED, settings, rows)


def evidence() -> Evidence:
    (seen,) = runs.measurements("looks")
    titles = {
        "pretrained": "The pretrained ViT, layer by layer",
        "patches shuffled": "The same, with the patches of each photograph shuffled",
        "fresh": "The same model with fresh weights",
        "flowers": "A small model trained on flowers",
        "CIFAR-10": "A small model trained on CIFAR-10",
    }
    note = (
        "Nine photographs. Distance: mean of the heads in units of even attention; near: heads "
        "below half of it. Shares of the variance of attention: offset, what the offset between "
        "two patches explains; place, what else all photographs share; content, what all patches "
        "of one photograph look at alike. Next patch: the largest share, over heads and "
        "directions, of patches whose largest weight on another patch falls on the next one in "
        "that direction."
    )
    return Evidence((), [Table(title, note, _lines(seen.rows, name))
                         for name, title in titles.items()])  # fmt: skip


def _lines(rows: list[dict], model: str) -> list[dict[str, str]]:
    numbers = ("distance", "class_token", "offset", "place", "content", "next_patch")
    return [
        {"layer": str(row["layer"]), "near heads": str(row["near"])}
        | {key.replace("_", " "): f"{abs(row[key]):.2f}" for key in numbers}
        for row in rows
        if row["model"] == model
    ]
