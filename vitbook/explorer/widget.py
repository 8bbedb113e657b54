"""Attention of a model on demand: sliders with a kernel, the page's own figure without one."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from html import escape
from math import prod

import numpy as np
import torch
from torch import Tensor, nn

from vitbook.explorer.drawing import as_array, as_images, heat, image_png
from vitbook.explorer.maps import attention_maps, mean_distance
from vitbook.modes import evaluating


def attention_widget(
    model: nn.Module | Mapping[str, nn.Module],
    images,
    *,
    prepare: Callable[[Tensor], Tensor] | None = None,
    num_prefix_tokens: int | None = None,
    grid_size: tuple[int, int] | None = None,
    labels: Sequence[str] | None = None,
    **figure,
):
    """Choose image, layer, head and query; Python computes what the head looks at.

    With a kernel and ipywidgets this is a widget that runs the model when asked. While the book
    is built (`VITBOOK_STATIC=1`), or without ipywidgets, it is the figure of `attention_maps`.

    Args:
        model: one model, or name -> model for several side by side; ours, timm's, torchvision's.
        images: uint8 "n c h w".
        prepare: uint8 images to what the model takes; by default (x / 255 - 0.5) / 0.5.
        num_prefix_tokens: for a model that does not say it.
        grid_size: rows and columns of patches, for a model that does not say it.
        labels: a caption for each image.
        figure: what else `attention_maps` takes: title, description, task, goal, start.
    """
    models = dict(model) if isinstance(model, Mapping) else {"this model": model}
    images = torch.from_numpy(as_images(images))
    first = next(iter(models.values()))
    grid_size = _said(first, "grid_size", grid_size)
    num_prefix_tokens = _said(first, "num_prefix_tokens", num_prefix_tokens)
    prepare = prepare or (lambda x: x.float() / 127.5 - 1)

    try:
        from ipywidgets import HTML, IntSlider, VBox
    except ImportError:
        HTML = None
    if HTML is None or os.environ.get("VITBOOK_STATIC") == "1":
        maps = {name: _capture(each, prepare(images)) for name, each in models.items()}
        return attention_maps(images, maps, num_prefix_tokens=num_prefix_tokens,
                              grid_size=grid_size, labels=labels, **figure)  # fmt: skip

    @cache
    def look(image: int) -> dict[str, np.ndarray]:
        one = prepare(images[image : image + 1])
        return {name: np.stack([as_array(layer[0]) for layer in _capture(each, one)])
                for name, each in models.items()}  # fmt: skip

    layers, heads, tokens, _ = next(iter(look(0).values())).shape
    if tokens != num_prefix_tokens + prod(grid_size):
        raise ValueError(
            f"maps came with {tokens} tokens, expected {num_prefix_tokens} + {prod(grid_size)}: "
            "pass the grid_size and num_prefix_tokens of this model"
        )
    sizes = {"image": len(images), "layer": layers, "head": heads, "query": tokens}
    sliders = {name: IntSlider(0, 0, size - 1, description=name) for name, size in sizes.items()}
    sliders["layer"].value = layers - 1
    view = HTML()

    def show(_=None) -> None:
        at = {name: slider.value for name, slider in sliders.items()}
        rows = {name: maps[at["layer"], at["head"], at["query"]]
                for name, maps in look(at["image"]).items()}  # fmt: skip
        image = as_array(images[at["image"]])
        view.value = _view(image, rows, at["query"], num_prefix_tokens, grid_size)

    for slider in sliders.values():
        slider.observe(show, "value")
    show()
    return VBox([*sliders.values(), view])


def _said(model: nn.Module, name: str, given):
    """What the caller gave, or what the model says of itself; timm has it on its embedding."""
    for owner in (model, getattr(model, "patch_embed", None)):
        given = getattr(owner, name, None) if given is None else given
    if given is None:
        raise ValueError(f"{type(model).__name__} does not say its {name}: pass {name}=")
    return given


@torch.no_grad()
def _capture(model: nn.Module, images: Tensor) -> list[Tensor]:
    """The maps of all layers, in evaluation mode."""
    from vitbook.analysis import capture_attention

    parameter = next(model.parameters())
    with evaluating(model), capture_attention(model) as maps:
        model(images.to(parameter.device, parameter.dtype))
    return list(maps.values())


def _view(image: np.ndarray, rows: dict, query: int, prefix: int, grid: tuple[int, int]) -> str:
    """The image under each model's attention, on one scale, with the numbers in words."""
    height, width = image.shape[1:]
    top = max(float(row[prefix:].max()) for row in rows.values())
    step = (height / grid[0], width / grid[1])
    panels = []
    for name, row in rows.items():
        over = image_png(heat(row[prefix:].reshape(grid), top).transpose(2, 0, 1))
        drawn = "".join(
            f'<img src="{address}" alt="" style="position:absolute;inset:0;width:100%;height:100%;'
            f'image-rendering:pixelated;opacity:{opacity}">'
            for address, opacity in ((image_png(image), 1), (over, 0.7))
        )
        far = "" if query < prefix else (
            f"mean distance {mean_distance(row[prefix:], query - prefix, grid, step):.1f} px, "
        )  # fmt: skip
        panels.append(
            f'<figure style="margin:0;width:260px"><b>{escape(name)}</b><div role="img" '
            f'aria-label="attention of {escape(name)}" style="position:relative;'
            f'aspect-ratio:{width}/{height}">{drawn}</div><figcaption>{far}'
            f"{row[:prefix].sum():.3f} on prefix tokens, {row[query]:.3f} on itself, "
            f"at most {row[prefix:].max():.3f} on a patch</figcaption></figure>"
        )
    asker = f"prefix token {query}" if query < prefix else (
        "patch row {}, column {}".format(*divmod(query - prefix, grid[1]))
    )  # fmt: skip
    return (
        f"<p>Asked from {asker}; counted from 0; colours from 0 to {top:.3f}.</p>"
        f'<div style="display:flex;flex-wrap:wrap;gap:16px">{"".join(panels)}</div>'
    )
