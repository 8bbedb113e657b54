"""Still figures: each takes results, never a model, and returns a figure whose title is a claim."""

from collections.abc import Iterable, Mapping
from itertools import cycle

import matplotlib.pyplot as plt
import seaborn as sns
from einops import rearrange
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

INK = "#333333"
# Okabe and Ito's colours, which colour-blind readers tell apart.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
HEAT = "cividis"

sns.set_theme(style="ticks", palette=COLORS, rc={"font.size": 10, "axes.titlesize": 10})


def _finish(figure: Figure, title: str) -> Figure:
    figure.suptitle(title, fontsize=12, fontweight="bold", color=INK)
    plt.close(figure)  # shown once, where it is returned
    return figure


def _picture(axes, image: Tensor) -> None:
    """A picture of uint8, "channels height width", without a frame of numbers."""
    pixels = rearrange(image, "c h w -> h w c").squeeze(-1).cpu().numpy()
    axes.imshow(pixels, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    axes.set(xticks=[], yticks=[])


def _mark(axes, cell: tuple[int, int], size: tuple[float, float]) -> None:
    """A frame around one cell (row, column) of a grid, whose first pixel has its centre at 0."""
    corner = (cell[1] * size[1] - 0.5, cell[0] * size[0] - 0.5)
    for color, width in (("white", 4.5), (COLORS[1], 2.5)):
        axes.add_patch(
            Rectangle(corner, size[1], size[0], fill=False, edgecolor=color, linewidth=width)
        )


def pictures(images: Mapping[str, Tensor], title: str, columns: int = 4) -> Figure:
    """Pictures side by side, each under its name.

    Args:
        images: name -> uint8 picture, "channels height width".
    """
    rows = -(-len(images) // columns)
    width = min(columns, len(images))
    figure, axes = plt.subplots(
        rows, width, figsize=(2.2 * width, 2.4 * rows + 0.4), squeeze=False, layout="constrained"
    )
    for axis in axes.flat[len(images) :]:
        axis.axis("off")
    for axis, (name, image) in zip(axes.flat, images.items(), strict=False):
        _picture(axis, image)
        axis.set_title(name)
    return _finish(figure, title)


def photo_and_maps(
    image: Tensor,
    maps: Mapping[str, Tensor],
    query: tuple[int, int],
    title: str,
) -> Figure:
    """A photograph with one patch framed, and maps over its patches, each with its own scale.

    Args:
        image: uint8, "channels height width".
        maps: name -> "rows columns", one number a patch.
        query: (row, column) of the framed patch.
    """
    figure, axes = plt.subplots(
        1, 1 + len(maps), figsize=(3.2 * (1 + len(maps)), 3.3), layout="constrained"
    )
    rows, columns = next(iter(maps.values())).shape
    _picture(axes[0], image)
    size = (image.shape[1] / rows, image.shape[2] / columns)
    _mark(axes[0], query, size)
    axes[0].set_title("the question")
    for axis, (name, values) in zip(axes[1:], maps.items(), strict=True):
        drawn = axis.imshow(values.cpu().numpy(), cmap=HEAT, vmin=0)
        _mark(axis, query, (1.0, 1.0))
        axis.set(xticks=[], yticks=[], title=name)
        figure.colorbar(drawn, ax=axis, shrink=0.8)
    return _finish(figure, title)


def lines(
    x: Iterable,
    series: Mapping[str, Iterable],
    title: str,
    *,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    y_limits: tuple[float, float] | None = None,
    levels: Mapping[str, float | int] | None = None,
    mark_x: Mapping[str, float | int] | None = None,
) -> Figure:
    """Curves over one axis, named in a legend.

    Args:
        x: numbers, or words that stand side by side.
        levels: name -> height of a dashed line to compare with.
        mark_x: name -> place of a dotted upright line.
    """
    x = list(x)
    figure, axis = plt.subplots(figsize=(5.8, 3.6), layout="constrained")
    for name, y in series.items():
        axis.plot(x, y, marker="o" if len(x) < 20 else None, label=name)
    for (name, y), style in zip((levels or {}).items(), cycle(("--", "-.", ":")), strict=False):
        axis.axhline(y, color="gray", linestyle=style, linewidth=1.2, label=name)
    for name, place in (mark_x or {}).items():
        axis.axvline(place, color="gray", linestyle=":", linewidth=1.2)
        axis.annotate(
            name, (place, 1.01), xycoords=("data", "axes fraction"), va="bottom", ha="center",
            fontsize=9, color=INK,
        )  # fmt: skip
    axis.set(xlabel=x_label, ylabel=y_label)
    if log_x:  # to set the linear scale again would take the names off an axis of words
        axis.set_xscale("log")
    elif all(isinstance(place, int) for place in x):
        axis.xaxis.get_major_locator().set_params(integer=True)  # no layer 1.5
    if y_limits is not None:
        axis.set_ylim(*y_limits)
    many = len(axis.get_legend_handles_labels()[0]) > 4
    axis.legend(frameon=False, fontsize=9, ncols=1 + many)
    sns.despine(figure)
    return _finish(figure, title)


def heat_maps(
    maps: Mapping[str, Tensor], title: str, *, image: Tensor | None = None, columns: int = 6
) -> Figure:
    """Small maps on one shared scale, from zero to the largest of all.

    Args:
        maps: name -> "rows columns".
        image: a uint8 picture to show first.
    """
    panels = len(maps) + (image is not None)
    rows = -(-panels // columns)
    width = min(panels, columns)
    figure, axes = plt.subplots(
        rows, width, figsize=(1.55 * width + 0.7, 1.75 * rows + 0.6), squeeze=False,
        layout="constrained",
    )  # fmt: skip
    axes = list(axes.flat)
    for axis in axes[panels:]:
        axis.axis("off")
    shown = axes[:panels]
    if image is not None:
        _picture(shown[0], image)
        shown[0].set_title("picture", fontsize=9)
        shown = shown[1:]
    top = max(float(values.max()) for values in maps.values())
    for axis, (name, values) in zip(shown, maps.items(), strict=True):
        drawn = axis.imshow(values.cpu().numpy(), cmap=HEAT, vmin=0, vmax=top)
        axis.set_title(name, fontsize=9)
        axis.set(xticks=[], yticks=[])
    figure.colorbar(drawn, ax=axes, shrink=0.8)
    return _finish(figure, title)


def likeness(
    maps: Mapping[str, Tensor], title: str, *, tile: tuple[int, int], label: str = "cosine"
) -> Figure:
    """Square maps of numbers from -1 to 1, on one shared scale, two to a line.

    Args:
        maps: name -> "rows columns".
        tile: (rows, columns) after which a white line is drawn.
    """
    lines = -(-len(maps) // 2)
    figure, axes = plt.subplots(
        lines, 2, figsize=(6.6, 3.2 * lines), squeeze=False, layout="constrained"
    )
    for axis in axes.flat[len(maps) :]:
        axis.axis("off")
    for axis, (name, values) in zip(axes.flat, maps.items(), strict=False):
        drawn = axis.imshow(values.cpu().numpy(), cmap=HEAT, vmin=-1, vmax=1)
        for draw, size, step in zip(
            (axis.axhline, axis.axvline), values.shape, tile, strict=True
        ):  # fmt: skip
            for place in range(step, size, step):
                draw(place - 0.5, color="white", linewidth=0.8)
        axis.set(xticks=[], yticks=[], title=name)
    figure.colorbar(drawn, ax=axes, shrink=0.8, label=label)
    return _finish(figure, title)


def distance_by_layer(
    distances: Mapping[str, Tensor],
    uniform: float | int,
    title: str,
    *,
    null: Mapping[str, Tensor] | None = None,
    levels: Mapping[str, float | int] | None = None,
    unit: str = "px",
    quantity: str = "mean attention distance",
) -> Figure:
    """One dot a head over its layer, a panel a model, as figures 7 and 11 of the ViT paper.

    A short bar is the mean of a layer's heads. Dots carry one colour: a head's number means
    nothing from one layer to the next.

    Args:
        distances: name -> "layers heads".
        uniform: where attention alike on every patch would be, drawn as a dashed line.
        null: name -> "layers heads" of the same model before training, drawn as grey crosses.
        levels: name -> height of a dotted line to compare with.
        unit: of ``uniform`` and ``distances``; "" for a share.
        quantity: what is measured, for the axis.
    """
    widths = [max(2.3, 0.2 * len(values)) for values in distances.values()]
    figure, axes = plt.subplots(
        1, len(widths), sharey=True, squeeze=False, layout="constrained",
        figsize=(sum(widths) + 1.2, 3.6), width_ratios=widths,
    )  # fmt: skip
    for axis, color, (name, values) in zip(
        axes.flat, cycle(COLORS), distances.items(), strict=False
    ):
        depth, heads = len(values), values.float().cpu().numpy()
        layers, pace = range(1, depth + 1), 1 if depth < 9 else round(depth / 3)
        axis.axhline(uniform, color="gray", linestyle="--", linewidth=1.2, zorder=0)
        for level in (levels or {}).values():
            axis.axhline(level, color="gray", linestyle=":", linewidth=1.2, zorder=0)
        if null and name in null:
            crosses = null[name].float().cpu().numpy()
            axis.plot(layers, crosses, "x", color="gray", markersize=5)
        axis.plot(layers, heads, "o", color=color, alpha=0.65, markeredgecolor="white")
        axis.plot(layers, heads.mean(1), "_", color=INK, markersize=13, markeredgewidth=1.8)
        axis.set(xlabel="layer", title=name, xlim=(0.3, depth + 0.7))
        axis.set_xticks(sorted({1, *layers[pace - 1 :: pace]}))
    drawn = (*distances.values(), *(null or {}).values())
    top = max(uniform, *(float(values.nan_to_num().max()) for values in drawn))
    axes[0, 0].set(
        ylabel=f"{quantity} ({unit})" if unit else quantity, ylim=(-0.02 * top, 1.12 * top)
    )
    for name, level in {"uniform": uniform, **(levels or {})}.items():
        axes[0, -1].annotate(
            f"{name}:\n{level:.3g} {unit}".strip(), (1, level), va="center", fontsize=9,
            xycoords=("axes fraction", "data"), xytext=(4, 0), textcoords="offset points",
            color=INK,
        )  # fmt: skip
    sns.despine(figure)
    return _finish(figure, title)
