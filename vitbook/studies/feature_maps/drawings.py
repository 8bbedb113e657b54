"""A layer's channels, each as a small map with a sign."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
from jaxtyping import Float, UInt8
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from torch import Tensor

from vitbook.plots.page import for_pages
from vitbook.plots.style import COLORS, draw_image, finish

# White is zero, so that a dead map of zeros is blank.
TWO_SIDED = LinearSegmentedColormap.from_list("two_sided", (COLORS[0], "#f4f4f2", COLORS[1]))


@for_pages
def channel_lines(
    lines: Mapping[str, Float[Tensor, "_ _ _"]],
    title: str,
    *,
    image: UInt8[Tensor, "channels height width"] | None = None,
) -> Figure:
    """A line for each layer: its channels side by side, all of one line on one scale.

    Args:
        lines: name -> maps "channels rows columns", the same number of channels in each.
        image: shown in front of each line.
    """
    columns = len(next(iter(lines.values()))) + (image is not None)
    figure, axes = plt.subplots(
        len(lines), columns, figsize=(1.1 * columns, 1.45 * len(lines) + 0.5), squeeze=False,
        layout="constrained",
    )  # fmt: skip
    figure.get_layout_engine().set(h_pad=0.14)  # room for the names, which claim none themselves
    for row, (name, maps) in zip(axes, lines.items(), strict=True):
        row[0].text(0, 1.1, name, transform=row[0].transAxes).set_in_layout(False)
        if image is not None:
            draw_image(row[0], image)
        scale = float(maps.abs().max()) or 1
        for channel, axis in enumerate(row[image is not None :]):
            values = maps[channel].float().cpu().numpy()
            axis.imshow(values, cmap=TWO_SIDED, vmin=-scale, vmax=scale)
            axis.set(xticks=[], yticks=[])
    return finish(figure, title)
