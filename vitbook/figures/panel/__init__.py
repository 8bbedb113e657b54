"""A gallery with controls that Python hears: image, upload, who asks, layer, head, fusion."""

from collections.abc import Mapping, Sequence

import numpy as np
from torch import nn

from vitbook.figures.attention_gallery import attention_gallery
from vitbook.figures.attention_gallery.choice import kernel_has_widgets
from vitbook.figures.attention_gallery.looks import FUSIONS, Look, Normalize, Pair, lay_out, look
from vitbook.figures.attention_maps import attention_maps
from vitbook.figures.parts.drawing import Number, as_images, named


def panel(
    model: nn.Module | Mapping[str, nn.Module],
    images,
    *,
    names: Sequence[str] | None = None,
    normalize: Normalize | None = None,
    num_prefix_tokens: int | None = None,
    grid_size: Pair | None = None,
    start: Pair | str | None = None,
    head: Pair | None = None,
    task: str | None = None,
    goal: Number | None = None,
    title: str = "What each head looks at",
    description: str | None = None,
):
    """Choose an image or upload one, who asks, a layer, a head or a fusion; Python runs the model.

    With a kernel and ipywidgets this is a widget that runs the model when asked; its ``choice``
    says what is chosen, its ``map`` holds the weights that are shown, and each of its controls has
    a ``value`` that may be set: ``photo``, ``upload``, ``asks``, ``row``, ``column``, ``layer``,
    ``head``, ``fusion``. Rows, columns, layers and heads are counted from 1 there. While the book
    is built (``VITBOOK_STATIC=1``), or without ipywidgets, it is the page's own figure:
    :func:`vitbook.figures.attention_gallery` of one model,
    :func:`vitbook.figures.attention_maps` of several.

    Args:
        model: one model, or name -> model for several of one layout, on one colour scale; ours,
            timm's, torchvision's, Hugging Face's.
        images: uint8 "n c h w", of the size that the model takes.
        names: of the images.
        normalize: uint8 images to what the model takes; by default (x / 255 - 0.5) / 0.5.
        num_prefix_tokens: for a model that does not say it.
        grid_size: rows and columns of patches, for a model that does not say it.
        start: who asks at the start: row and column of a patch, from 0, or "class token".
        head: layer and head at the start, from 0.
        task: a sentence above the page's own figure.
        goal: its task is reached under this mean distance in pixels.
        title: of the page's own figure.
        description: its caption.

    Raises:
        ValueError: what came does not fit together, as for
            :func:`vitbook.figures.attention_gallery`.
    """
    models = dict(model) if isinstance(model, Mapping) else {"": model}
    if not models:
        raise ValueError("model came empty, expected a model or name -> model")
    images = as_images(images)
    first = next(iter(models.values()))
    layout = lay_out(first, images, grid_size, num_prefix_tokens)
    names = named("names", names, [f"image {i + 1}" for i in range(len(images))])
    if not kernel_has_widgets():
        if not isinstance(model, Mapping):
            return attention_gallery(
                model, images, names=names, normalize=normalize, grid_size=layout.grid,
                num_prefix_tokens=len(layout.prefix), start=start, head=head, task=task, goal=goal,
                title=title, description=description,
            )  # fmt: skip
        maps = {name: np.stack([look(each, image, normalize, layout).layers for image in images], 1)
                for name, each in models.items()}  # fmt: skip
        return attention_maps(
            images, maps, num_prefix_tokens=len(layout.prefix), grid_size=layout.grid,
            labels=names, start=head, task=task or "", goal=goal, title=title,
            description=description,
        )  # fmt: skip

    from vitbook.figures.panel.controls import Panel

    def run(image: np.ndarray) -> dict[str, Look]:
        return {name: look(each, image, normalize, layout, FUSIONS)
                for name, each in models.items()}  # fmt: skip

    rows, columns = layout.grid
    query = layout.query(start if start is not None else (rows // 2, columns // 2))
    return Panel(list(zip(names, images, strict=True)), run, query, head)
