"""What every head of every layer looks at."""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from vitbook.figures.parts.drawing import CIVIDIS, as_array, as_images, base64, image_png, named
from vitbook.figures.parts.figure import Figure, at_the_start
from vitbook.figures.parts.maps import PREFIX, as_maps, quantize

_MOST_BYTES = 16_000_000


def attention_maps(
    images,
    maps,
    *,
    num_prefix_tokens: int,
    grid_size: tuple[int, int],
    labels: Sequence[str] | None = None,
    start: tuple[int, int] | None = None,
    task: str = "",
    goal: float | None = None,
    title: str = "What each head looks at",
    description: str | None = None,
) -> Figure:
    """An image, a query one can click, and the attention of all heads, for models side by side.

    Args:
        images: uint8 "n c h w", as the data set gives them.
        maps: model name -> "layers n heads queries keys", or a list of layers, or what
            `capture_attention` yielded; several models share one colour scale. One model's
            maps may come without a name.
        num_prefix_tokens: tokens before the patches, the class token first.
        grid_size: rows and columns of the patches.
        labels: a caption for each image.
        start: layer and head shown first, from 0; by default the last layer's first head.
        goal: the task is reached when a patch's head of the first model has a mean attention
            distance under this many pixels.
    """
    images = as_images(images)
    count, _, height, width = images.shape
    rows, columns = grid_size
    if height % rows or width % columns:
        raise ValueError(
            f"a grid of {rows}x{columns} does not divide images of {height}x{width}: "
            "pass the model's grid_size, and the images at the size that the model saw"
        )
    if not isinstance(maps, Mapping) or any(np.ndim(as_array(m)) == 4 for m in maps.values()):
        maps = {"this model": maps}
    tokens = num_prefix_tokens + rows * columns
    maps = {str(name): as_maps(str(name), each, count, tokens) for name, each in maps.items()}
    shapes = {each.shape for each in maps.values()}
    if len(shapes) > 1:
        raise ValueError(
            f"models came with maps of {' and '.join(map(str, shapes))}, expected the same "
            "layers and heads: make one figure for each"
        )
    layers, _, heads, _, _ = shape = shapes.pop()
    if (size := len(maps) * prod(shape)) > _MOST_BYTES:
        raise ValueError(
            f"maps hold {size / 1e6:.0f} million weights, expected at most "
            f"{_MOST_BYTES // 10**6} million in a page: pass fewer images or layers"
        )
    labels = named("labels", labels, [f"image {i + 1}" for i in range(count)])
    layer, head = start or (layers - 1, 0)
    if not (0 <= layer < layers and 0 <= head < heads):
        raise ValueError(
            f"start came as layer {layer}, head {head}, expected under {layers} and {heads}"
        )

    query = 0 if num_prefix_tokens else (rows // 2) * columns + columns // 2
    models, top = [], 0.0
    for name, each in maps.items():
        codes, scales = quantize(each)
        models += [{"name": name, "scales": [float(f"{s:.6g}") for s in scales],
                    "codes": base64(codes)}]  # fmt: skip
        top = max(top, float(each[:, 0, :, query, num_prefix_tokens:].max()))
    data = {
        "images": [image_png(image) for image in images], "labels": labels,
        "ink": base64(images) if max(height, width) <= 32 and images.shape[1] == 1 else None,
        "height": height, "width": width, "grid": [rows, columns],
        "prefix": [PREFIX[i] if i < 3 else f"prefix token {i + 1}"
                   for i in range(num_prefix_tokens)],
        "shape": list(shape), "turned": layers > 1.5 * heads, "models": models,
        "ramp": CIVIDIS, "task": task, "goal": goal,
        "start": {"image": 0, "query": query, "layer": layer, "head": head},
    }  # fmt: skip
    asked = PREFIX[0] if num_prefix_tokens else "middle patch"
    found = "; ".join(
        f"{name} gives at most {each[layer, 0, head, query, num_prefix_tokens:].max():.2f} "
        "to one patch" for name, each in maps.items()
    )  # fmt: skip
    finding = (
        f"{labels[0][:1].upper() + labels[0][1:]}, asked from the {asked}, layer {layer + 1} of "
        f"{layers}, head {head + 1} of {heads}: {found}. "
        f"Equal weight everywhere would be {1 / tokens:.3f}."
    )
    return Figure("attention_maps", data, title, description or at_the_start(finding))
