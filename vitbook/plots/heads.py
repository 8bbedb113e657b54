"""All heads of a model on one sheet."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
from jaxtyping import Float, UInt8
from matplotlib.figure import Figure
from torch import Tensor

from vitbook.plots.page import for_pages
from vitbook.plots.style import HEAT, draw_image, finish


@for_pages
def head_sheet(
    maps: Sequence[Float[Tensor, "_heads rows columns"]],
    title: str,
    image: UInt8[Tensor, "channels height width"] | None = None,
) -> Figure:
    """A line for each layer, a map for each head, each map on its own scale from zero.

    Args:
        maps: by layer; layers may have different numbers of heads.
        image: shown left of the maps.
    """
    heads = max(len(layer) for layer in maps)
    left = 3.0 if image is not None else 0.0
    figure = plt.figure(figsize=(left + 0.72 * heads + 0.6, 0.72 * len(maps) + 0.7))
    columns = figure.add_gridspec(1, 2, width_ratios=(max(left, 0.01), 0.72 * heads), wspace=0.12)
    if image is not None:
        axis = figure.add_subplot(columns[0])
        draw_image(axis, image)
        axis.set_anchor("N")
    grid = columns[1].subgridspec(len(maps), heads, wspace=0.06, hspace=0.06)
    for number, layer in enumerate(maps):
        for head, weights in enumerate(layer):
            axis = figure.add_subplot(grid[number, head])
            axis.imshow(weights.float().cpu().numpy(), cmap=HEAT, vmin=0)
            axis.set(xticks=[], yticks=[])
            for side in axis.spines.values():
                side.set_visible(False)
            if not head:
                axis.set_ylabel(number + 1, rotation=0, ha="right", va="center", fontsize=9)
            if not number:
                axis.set_title(head + 1, fontsize=9, pad=3)
    figure.subplots_adjust(left=0.02, right=0.99, bottom=0.01, top=0.88 if len(maps) < 6 else 0.92)
    return finish(figure, title)
