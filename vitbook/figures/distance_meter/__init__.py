"""Heads of a model over a photograph, and the attention distance that is published for each."""

from collections.abc import Mapping

import torch

from vitbook.analysis import attention_distance, uniform_attention_distance, weight_on_prefix
from vitbook.figures.parts.drawing import as_array, as_images, base64, patch_at
from vitbook.figures.parts.figure import Figure
from vitbook.figures.parts.jpeg import jpeg
from vitbook.figures.parts.maps import quantize


def distance_meter(
    image,
    heads: Mapping[str, object],
    grid_size: tuple[int, int],
    *,
    num_prefix_tokens: int = 1,
    start: tuple[int, int] | None = None,
    task: str | None = None,
    title: str = "The map stays and the circle shrinks: what the class token takes counts as no "
    "distance",
    description: str | None = None,
) -> Figure:
    """Where a patch looks in some heads; a circle whose radius is the head's published distance.

    A slider moves weight of every patch to the class token: the published distance shrinks by as
    much, and where the head looks stays.

    Args:
        image: uint8 "channels height width".
        heads: name -> weights "queries keys" on this image, prefix tokens first.
        grid_size: (rows, columns) of the patches, which divide the image.
        num_prefix_tokens: how many come before the patches; their first is the class token.
        start: (row, column) of the patch that asks at the start, by default in the middle.

    Raises:
        ValueError: what is no image, heads without names, a grid that does not divide the image,
            or what :func:`vitbook.analysis.attention_distance` refuses.
    """
    (image,) = as_images(as_array(image)[None])
    (rows, columns), (height, width) = grid_size, image.shape[1:]
    if height % rows or width % columns:
        raise ValueError(
            f"an image of {height}x{width} pixels and a grid of {rows}x{columns} patches: expected "
            "whole patches, resize the image"
        )
    if len(heads) < 2:
        raise ValueError(f"{len(heads)} heads came, expected at least two to compare")
    maps = torch.stack([torch.as_tensor(as_array(weights)).float() for weights in heads.values()])
    step = (height // rows, width // columns)
    at = (maps[None], grid_size, step, num_prefix_tokens)
    published, reach = (attention_distance(*at, again)[0].tolist() for again in (False, True))
    on_token = weight_on_prefix(maps[None], num_prefix_tokens)[0].tolist()
    near, far = (pick(range(len(heads)), key=published.__getitem__) for pick in (min, max))

    names, uniform = list(map(str, heads)), uniform_attention_distance(grid_size, step)
    patches = maps[:, num_prefix_tokens:, num_prefix_tokens:].numpy()
    codes, scales = quantize(patches)
    told = "; ".join(
        f"{name} {far_:.0f} px, {on:.2f} on the class token"
        for name, far_, on in zip(names, published, on_token, strict=True)
    )
    finding = (
        "Bright: where the framed patch looks. Solid circle: the published distance of the head, "
        f"a mean over all {rows * columns} patches; dashed: that of even attention, {uniform:.0f} "
        f"px.\nAt the start: {told}."
    )
    if task is None:
        task = (
            f"Choose {names[far]}, whose circle is wide. Move its weight to the class token until "
            f"the circle is as small as that of {names[near]}. What has changed in the map?"
        )
    data = {
        "image": jpeg(image), "size": [height, width], "grid": list(grid_size), "names": names,
        "weights": base64(codes), "scales": scales.tolist(),
        "published": published, "reach": reach, "token": on_token, "uniform": uniform,
        "near": near, "far": far, "task": task,
        "query": patch_at(start or (rows // 2, columns // 2), grid_size),
    }  # fmt: skip
    return Figure("distance_meter", data, title, description or finding)
