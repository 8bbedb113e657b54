"""Colours, and what all figures do."""

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


def finish(figure: Figure, title: str) -> Figure:
    """The figure under its title."""
    figure.suptitle(title, fontsize=12, fontweight="bold", color=INK)
    plt.close(figure)  # shown once, where it is returned
    return figure


def draw_image(axes, image: Tensor) -> None:
    """An image of uint8, "channels height width", without a frame of numbers."""
    pixels = rearrange(image, "c h w -> h w c").squeeze(-1).cpu().numpy()
    axes.imshow(pixels, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    axes.set(xticks=[], yticks=[])


def mark_cell(axes, cell: tuple[int, int], size: tuple[float, float]) -> None:
    """A frame around one cell (row, column) of a grid, whose first pixel has its centre at 0."""
    corner = (cell[1] * size[1] - 0.5, cell[0] * size[0] - 0.5)
    for color, width in (("white", 4.5), (COLORS[1], 2.5)):
        axes.add_patch(
            Rectangle(corner, size[1], size[0], fill=False, edgecolor=color, linewidth=width)
        )
