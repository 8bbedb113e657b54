"""Every channel of every layer of some models, each as a small map, with the dead ones crossed."""

from collections.abc import Mapping

import numpy as np
import torch

from vitbook.analysis.features.channels import dead_and_saturated
from vitbook.figures.parts.drawing import OKABE_ITO, as_array, as_images, base64, image_png
from vitbook.figures.parts.figure import Figure, at_the_start

TWO_SIDED = (OKABE_ITO[0], "#f4f4f2", OKABE_ITO[4])  # below zero, zero, above
_MOST_BYTES = 1_000_000


def quantize(maps: np.ndarray) -> tuple[np.ndarray, float]:
    """Numbers to int8 along the square root, their sign kept, and the largest magnitude.

    A number is `sign(code) * scale * (code / 127) ** 2`: off by at most `scale / 127`, and zero
    stays zero.
    """
    scale = max(float(np.abs(maps).max()), 1e-12)
    codes = np.rint(127 * np.sign(maps) * np.sqrt(np.abs(maps) / scale))
    return codes.astype(np.int8), scale


def channel_browser(
    images,
    maps: Mapping,
    *,
    start: tuple[str, str] | None = None,
    task: str | None = None,
    title: str = "A channel that is dead on one image may be alive on the next",
    description: str | None = None,
) -> Figure:
    """An image beside one channel of one layer, and all channels of that layer on one scale.

    Args:
        images: uint8 "n c h w".
        maps: model -> layer -> "n channels rows columns", as
            :func:`vitbook.analysis.feature_maps` gives them for these images.
        start: model and layer shown first, by default the last layer of the first model; its
            strongest channel on the first image is chosen.
    """
    images = as_images(images)
    layers = [(str(model), str(name), as_array(values).astype(np.float32))
              for model, of_model in maps.items() for name, values in of_model.items()]  # fmt: skip
    if (size := sum(values.size for *_, values in layers)) > _MOST_BYTES:
        raise ValueError(
            f"maps hold {size / 1e6:.1f} million numbers, expected at most one million in a page: "
            "pass fewer images or layers"
        )
    names = [(model, name) for model, name, _ in layers]
    if start is None:
        start = [pair for pair in names if pair[0] == names[0][0]][-1]
    at = names.index(tuple(start))
    packed = [_pack(*layer) for layer in layers]
    first = layers[at][2][0]
    strongest = int(np.abs(first).reshape(len(first), -1).max(1).argmax())
    if task is None:
        task = (
            "Find a channel that is dead on this image (crossed out). Then find an image that "
            "wakes it."
        )
    data = {
        "images": [image_png(image) for image in images],
        "height": images.shape[2], "width": images.shape[3],
        "layers": packed, "colors": TWO_SIDED, "task": task,
        "start": {"image": 0, "layer": at, "channel": strongest},
    }  # fmt: skip
    finding = _finding(packed[at], layers[at][2])
    return Figure("channel_browser", data, title, description or at_the_start(finding))


def dead_on(maps: np.ndarray) -> list[int]:
    """Channels of "images channels rows columns" that are dead on these images together."""
    (health,) = dead_and_saturated({"layer": torch.from_numpy(np.ascontiguousarray(maps))}).values()
    return health.dead.nonzero().flatten().tolist()


def _pack(model: str, name: str, values: np.ndarray) -> dict:
    codes, scale = quantize(values)
    return {
        "model": model, "name": name, "shape": list(values.shape[1:]),
        "scale": float(f"{scale:.6g}"), "codes": base64(codes),
        "dead": [dead_on(values[i : i + 1]) for i in range(len(values))],
        "always": dead_on(values),
    }  # fmt: skip


def _finding(layer: dict, values: np.ndarray) -> str:
    channels = values.shape[1]
    return (
        f"The first image leaves {len(layer['dead'][0])} of the {channels} channels of "
        f"{layer['model']}, {layer['name']}, dead; on all {len(values)} images together "
        f"{len(layer['always'])} are dead."
    )
