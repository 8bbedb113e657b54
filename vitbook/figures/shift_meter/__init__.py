"""A camera moves, a convolution looks: does its map move along?"""

import numpy as np

from vitbook.figures.parts.drawing import OKABE_ITO, as_images, base64
from vitbook.figures.parts.figure import Figure

_BELOW, _ABOVE = OKABE_ITO[4], OKABE_ITO[0]
_WINDOW, _STRIDES = 4, (1, 2, 4)  # the last is that of a patch embedding
_MOST_PIXELS = 160 * 200


def edge_map(image: np.ndarray, window: int, stride: int) -> np.ndarray:
    """How much brighter the right half of each window is than its left half, no padding.

    Args:
        image: "h w", whole numbers.
        window: pixels on a side, even.
        stride: pixels that it steps, down and across.
    """
    windows = np.lib.stride_tricks.sliding_window_view(image.astype(int), (window, window))
    windows = windows[::stride, ::stride]
    half = window // 2
    return windows[..., half:].sum((-2, -1)) - windows[..., :half].sum((-2, -1))


def left_over(moved: np.ndarray, before: np.ndarray, cells: int) -> float:
    """What of a map is not the old one, moved by whole cells: 0 is nothing, 1 is all.

    The sum of absolute differences over the sum of absolute values, where both maps have a value.
    """
    columns = before.shape[1] - cells
    old, new = before[:, cells:], moved[:, :columns]
    return float(np.abs(new - old).sum() / max((np.abs(new) + np.abs(old)).sum(), 1))


def _best(moved: np.ndarray, before: np.ndarray, shift: int, stride: int) -> float:
    """``left_over`` with the whole number of cells that fits better."""
    return min(left_over(moved, before, n) for n in {shift // stride, -(-shift // stride)})


def shift_meter(
    image,
    *,
    task: str | None = None,
    title: str = "A map moves with the image, but only by whole strides",
    description: str | None = None,
) -> Figure:
    """A photograph under a moving camera, its map of upright edges, and what did not move along.

    Args:
        image: uint8, "channels height width"; its last columns, 8 of them, come
            into view as the camera moves. Colours are averaged.
    """
    grey = np.rint(as_images(image[None])[0].mean(axis=0)).astype(np.uint8)
    reach = 2 * max(_STRIDES)
    high, wide = grey.shape
    if grey.size > _MOST_PIXELS:
        raise ValueError(
            f"an image of {high}x{wide} px, expected at most {_MOST_PIXELS:,} pixels: cut it"
        )
    view = wide - reach
    cameras = [grey[:, moved : moved + view] for moved in range(reach + 1)]
    rests = {}
    for stride in _STRIDES:
        maps = [edge_map(camera, _WINDOW, stride) for camera in cameras]
        rests[stride] = [_best(new, maps[0], s, stride) for s, new in enumerate(maps)]
    finest = edge_map(cameras[0], _WINDOW, _STRIDES[0])
    null = left_over(finest[::-1], finest, 0)
    top = float(np.quantile(np.abs(finest), 0.98)) or 1.0

    first, *_, last = _STRIDES
    finding = (
        f"With a stride of {first} the map follows every move of the camera exactly. With a stride "
        f"of {last} it follows only multiples of {last} pixels; between them up to "
        f"{100 * max(rests[last]):.0f} % of the map is new. An unrelated map, the same one upside "
        f"down, would leave {100 * null:.0f} %."
    )
    if task is None:
        task = (
            f"Set the stride to {last}, as in a patch embedding. Then find a move of the camera, "
            "other than none, that leaves nothing over."
        )
    data = {
        "size": [high, wide], "view": view, "reach": reach, "window": _WINDOW, "strides": _STRIDES,
        "shift": 2, "pixels": base64(grey), "top": top, "null": round(null, 4),
        "colors": [_BELOW, _ABOVE], "task": task,
    }  # fmt: skip
    return Figure("shift_meter", data, title, description or finding)
