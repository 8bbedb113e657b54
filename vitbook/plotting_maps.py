"""Still figures of maps over the patches of pictures."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
from jaxtyping import Float, UInt8
from matplotlib.figure import Figure
from torch import Tensor

from vitbook.plotting import HEAT, _finish, _picture


def maps_beside_pictures(
    images: Mapping[str, UInt8[Tensor, "channels height width"]],
    maps: Mapping[str, Float[Tensor, "pictures rows columns"]],
    title: str,
) -> Figure:
    """A line for each picture: itself, then its maps, on one scale from zero to their maximum.

    Args:
        images: name -> picture.
        maps: name -> one map for each picture, in the same order.

    Raises:
        ValueError: another number of maps than of pictures.
    """
    for name, each in maps.items():
        if len(each) != len(images):
            raise ValueError(f"{len(each)} maps of {name}: expected {len(images)}, one a picture")
    lines, columns = len(images), 1 + len(maps)
    figure, axes = plt.subplots(
        lines, columns, figsize=(2.2 * columns, 2.1 * lines + 0.5), squeeze=False,
        layout="constrained",
    )  # fmt: skip
    for line, (name, image) in enumerate(images.items()):
        _picture(axes[line, 0], image)
        axes[line, 0].set_ylabel(name, fontsize=9)
        top = max(float(each[line].max()) for each in maps.values())
        for axis, (kind, each) in zip(axes[line, 1:], maps.items(), strict=True):
            axis.imshow(each[line].float().cpu().numpy(), cmap=HEAT, vmin=0, vmax=top or 1)
            axis.set(xticks=[], yticks=[])
            if not line:
                axis.set_title(kind)
    return _finish(figure, title)
