"""Cells of an image taken away in an explanation's order, and how sure the model stays."""

from collections.abc import Mapping, Sequence

import numpy as np

from vitbook.analysis.attribution.faithfulness import Curve, order
from vitbook.figures.parts.drawing import as_array, as_images, base64, image_png
from vitbook.figures.parts.figure import Figure


def deletion_curves(
    images,
    maps: Mapping,
    curves: Mapping[str, Curve],
    *,
    rival: str,
    truth: str,
    labels: Sequence[str] | None = None,
    removed: int = 0,
    task: str | None = None,
    title: str = "An order that finds the image's ink also lowers the model's certainty",
    description: str | None = None,
) -> Figure:
    """A few images: what is left of one, and the certainty of its class along the order.

    Args:
        images: uint8 "n c h w".
        maps: name -> explanations "n rows columns" of these images, as
            :func:`vitbook.analysis.deletion` took them, to the mean colour.
        curves: name -> the :class:`~vitbook.analysis.Curve` that ``deletion`` gave for this map,
            with one step for each cell.
        rival, truth: names of two explanations among ``maps``. The task is reached when the reader
            has chosen ``rival`` on an image where its curve has a lower area than that of
            ``truth``.
        labels: of the images; by default numbered.
        removed: cells taken away at the start.
    """
    images, names = as_images(images), list(maps)
    _, rows, columns = maps[rival].shape
    scores = np.stack([as_array(curve.scores) for curve in curves.values()])
    areas = np.stack([as_array(curve.areas) for curve in curves.values()])
    places = np.stack([as_array(order(each)) for each in maps.values()]).astype(np.uint8)
    labels = [f"image {i + 1}" for i in range(len(images))] if labels is None else list(labels)
    data = {
        "images": [image_png(image) for image in images], "labels": labels, "names": names,
        "means": np.rint(images.mean((2, 3))).astype(int).tolist(), "size": images.shape[2:],
        "grid": [rows, columns], "places": base64(places), "rival": rival, "truth": truth,
        "scores": base64(np.rint(255 * scores).astype(np.uint8)),
        "areas": areas.round(3).tolist(), "task": task or "",
        "start": {"image": 0, "explanation": rival, "removed": removed},
    }  # fmt: skip
    told = "; ".join(f"{name} {area:.3f}" for name, area in zip(names, areas[:, 0], strict=True))
    mean = "; ".join(
        f"{name} {area:.3f}" for name, area in zip(names, areas.mean(1), strict=True)
    )  # fmt: skip
    finding = (
        f"Shown at the start: {labels[0]}, its cells taken away in the order of {rival}. Area "
        f"under the curve, the lower the better: {told}.\nMean of all {len(images)}: {mean}."
    )
    return Figure("deletion_curves", data, title, description or finding)
