"""Boxes on a canvas, and where a query looks."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from jaxtyping import Float, UInt8
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from vitbook.plots.page import for_pages, is_narrow
from vitbook.plots.style import COLORS, HEAT, draw_image, finish, fitted, wrapped
from vitbook.studies.detection.average_precision import CONFIDENT, Found
from vitbook.studies.detection.boxes import corners
from vitbook.studies.detection.canvases import Objects

Image = UInt8[Tensor, "1 height width"]


@for_pages
def boxes_on(
    images: Mapping[str, Image],
    found: Sequence[Found],
    title: str,
    *,
    objects: Sequence[Objects] | None = None,
    least: float = CONFIDENT,
    columns: int = 4,
) -> Figure:
    """Answers on each image, a query's always in its colour, as "its number: class, in percent".

    Args:
        images: name -> image.
        found: what was answered to each, all queries in their order.
        objects: what is there; drawn in white dots.
        least: probability from which an answer is shown.

    Raises:
        ValueError: no images, or not as many answers or objects.
    """
    for what, given in {"answers": found, "objects": objects}.items():
        if given is not None and len(given) != len(images):
            raise ValueError(f"{what} of {len(given)} images for {len(images)}: expected as many")
    figure, axes = _panels(images, title, columns)
    for place, axis in enumerate(axes):
        if objects is not None:
            for box in _pixels(objects[place].boxes, axis):
                _draw_box(axis, box, "white", linestyle=":")
        each = found[place]
        shown = (each.scores >= least).nonzero().flatten().tolist()
        for query, box in zip(shown, _pixels(each.boxes[shown], axis), strict=True):
            color = COLORS[query % len(COLORS)]
            words = f"{query}: {int(each.labels[query])}, {100 * float(each.scores[query]):.0f}"
            _draw_box(axis, box, color, words)
    return finish(figure, title)


@for_pages
def query_attention(
    image: Image,
    maps: Mapping[str, Float[Tensor, "rows columns"]],
    boxes: Float[Tensor, "queries 4"],
    title: str,
    *,
    points: Sequence[Float[Tensor, "points 2"]] | None = None,
    columns: int = 4,
) -> Figure:
    """The image under each query's attention, from zero to the query's maximum, and its box.

    Args:
        maps: name of a query -> its weights over the image tokens.
        boxes: of the same queries.
        points: that each of them reads, x and y in shares of the image, where it reads few.
    """
    figure, axes = _panels(dict.fromkeys(maps, image), title, columns)
    height, width = image.shape[1:]
    for place, (axis, weights) in enumerate(zip(axes, maps.values(), strict=True)):
        axis.imshow(
            weights.float().cpu().numpy(), cmap=HEAT, vmin=0, alpha=0.6,
            extent=(-0.5, width - 0.5, height - 0.5, -0.5), interpolation="nearest",
        )  # fmt: skip
        (box,) = _pixels(boxes[place : place + 1], axis)
        _draw_box(axis, box, COLORS[1])
        if points is not None:
            x, y = (points[place].cpu() * points[place].new_tensor([width, height]) - 0.5).unbind(1)
            axis.scatter(x.numpy(), y.numpy(), s=14, color=COLORS[1], edgecolors="white")
    return finish(figure, title)


def _panels(images: Mapping[str, Image], title: str, columns: int) -> tuple[Figure, list[Axes]]:
    if not images:
        raise ValueError("no images came: expected at least one, {'its title': image}")
    columns = min(len(images), 2 if is_narrow() else columns)
    rows = -(-len(images) // columns)
    side = 1.8 if is_narrow() else 2.1
    figure, axes = plt.subplots(
        rows, columns, figsize=fitted(side * columns, (side + 0.25) * rows + 0.4), squeeze=False,
        layout="constrained",
    )  # fmt: skip
    for axis in axes.flat[len(images) :]:
        axis.axis("off")
    shown = list(axes.flat)[: len(images)]
    for axis, (name, image) in zip(shown, images.items(), strict=True):
        draw_image(axis, image)
        axis.set_title(wrapped(name, side), fontsize=9)
    return figure, shown


def _pixels(boxes: Float[Tensor, "n 4"], axis: Axes) -> list[list[float]]:
    """Corners in the units of an axis, whose pixel 0 reaches from -0.5 to 0.5."""
    height, width = axis.images[0].get_array().shape[:2]
    scale = boxes.new_tensor([width, height, width, height])
    return (corners(boxes) * scale - 0.5).tolist()


def _draw_box(axis: Axes, box: list[float], color: str, words: str = "", **look: str) -> None:
    left, top, right, bottom = box
    axis.add_patch(
        Rectangle((left, top), right - left, bottom - top, fill=False, edgecolor=color, lw=1.6,
                  **look)
    )  # fmt: skip
    if words:
        above = top > 5
        axis.text(
            left, top if above else bottom, words, fontsize=7, color="white",
            va="bottom" if above else "top",
            bbox={"facecolor": color, "edgecolor": "none", "pad": 0.8},
        )  # fmt: skip
