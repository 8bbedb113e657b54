"""Images, and maps beside them."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
from jaxtyping import Float, UInt8
from matplotlib.figure import Figure
from torch import Tensor

from vitbook.plots.page import PHONE, for_pages, is_narrow
from vitbook.plots.style import HEAT, draw_image, finish, fitted, wrapped


@for_pages
def image_grid(images: Mapping[str, Tensor], title: str, columns: int = 4) -> Figure:
    """Images side by side, each under its name.

    Args:
        images: name -> uint8 image, "channels height width".
    """
    width = _columns(len(images), columns)
    rows = -(-len(images) // width)
    side = min(2.2, PHONE / width) if is_narrow() else 2.2
    figure, axes = plt.subplots(
        rows, width, figsize=fitted(side * width, (side + 0.2) * rows + 0.4), squeeze=False,
        layout="constrained",
    )  # fmt: skip
    for axis in axes.flat[len(images) :]:
        axis.axis("off")
    for axis, (name, image) in zip(axes.flat, images.items(), strict=False):
        draw_image(axis, image)
        axis.set_title(wrapped(name, side), parse_math=False)  # maybe that of a file
    return finish(figure, title)


@for_pages
def heat_maps(
    maps: Mapping[str, Tensor], title: str, *, image: Tensor | None = None, columns: int = 6
) -> Figure:
    """Small maps on one shared scale, from zero to the largest of all.

    Args:
        maps: name -> "rows columns".
        image: of uint8, to show first.
    """
    panels = len(maps) + (image is not None)
    width = _columns(panels, columns)
    rows = -(-panels // width)
    side = min(1.55, (PHONE - 0.7) / width) if is_narrow() else 1.55
    figure, axes = plt.subplots(
        rows, width, figsize=fitted(side * width + 0.7, (side + 0.2) * rows + 0.6), squeeze=False,
        layout="constrained",
    )  # fmt: skip
    axes = list(axes.flat)
    for axis in axes[panels:]:
        axis.axis("off")
    shown = axes[:panels]
    if image is not None:
        draw_image(shown[0], image)
        shown[0].set_title("image", fontsize=9)
        shown = shown[1:]
    top = max(float(values.max()) for values in maps.values())
    for axis, (name, values) in zip(shown, maps.items(), strict=True):
        drawn = axis.imshow(values.cpu().numpy(), cmap=HEAT, vmin=0, vmax=top)
        axis.set_title(wrapped(name, side), fontsize=9)
        axis.set(xticks=[], yticks=[])
    figure.colorbar(drawn, ax=axes, shrink=0.8)
    return finish(figure, title)


@for_pages
def similarity_maps(
    maps: Mapping[str, Tensor], title: str, *, tile: tuple[int, int], label: str = "cosine"
) -> Figure:
    """Square maps of numbers from -1 to 1, on one shared scale, two to a line.

    Args:
        maps: name -> "rows columns".
        tile: (rows, columns) after which a white line is drawn.
    """
    columns = 1 if is_narrow() else 2
    lines = -(-len(maps) // columns)
    figure, axes = plt.subplots(
        lines, columns, figsize=fitted(6.6, 3.2 * lines), squeeze=False, layout="constrained"
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
        axis.set(xticks=[], yticks=[], title=wrapped(name))
    figure.colorbar(drawn, ax=axes, shrink=0.8, label=label)
    return finish(figure, title)


@for_pages
def maps_beside_images(
    images: Mapping[str, UInt8[Tensor, "channels height width"]],
    maps: Mapping[str, Float[Tensor, "images rows columns"]],
    title: str,
) -> Figure:
    """A line for each image: itself, then its maps, on one scale from zero to their maximum.

    Args:
        images: name -> image.
        maps: name -> one map for each image, in the same order.
    """
    lines, columns = len(images), 1 + len(maps)
    side = PHONE / columns if is_narrow() else 1.65
    figure, axes = plt.subplots(
        lines, columns, figsize=fitted(max(1.7 * columns, 4.4), side * lines + 0.5),
        squeeze=False, layout="constrained",
    )  # fmt: skip
    for line, (name, image) in enumerate(images.items()):
        draw_image(axes[line, 0], image)
        axes[line, 0].set_ylabel(name, fontsize=10, parse_math=False)
        top = max(float(each[line].max()) for each in maps.values())
        for axis, (kind, each) in zip(axes[line, 1:], maps.items(), strict=True):
            axis.imshow(each[line].float().cpu().numpy(), cmap=HEAT, vmin=0, vmax=top or 1)
            axis.set(xticks=[], yticks=[])
            if not line:
                axis.set_title(wrapped(kind, side), fontsize=10)
    return finish(figure, title)


def _columns(panels: int, columns: int) -> int:
    """Panels side by side: on a phone at most three, but rows that were meant as rows stay."""
    if is_narrow() and (panels <= columns or columns > 4):
        columns = 2 if panels in (2, 4) else 3
    return min(panels, columns)
