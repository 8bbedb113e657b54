"""Mixup and cutmix: a picture made of two, and a target made of two."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from vitbook.training.draws import Draws
from vitbook.training.recipe import Recipe


def mix(
    pictures: Float[Tensor, "batch channels height width"],
    labels: Int64[Tensor, "batch"],
    num_classes: int,
    recipe: Recipe,
    draws: Draws,
) -> tuple[Float[Tensor, "batch channels height width"], Float[Tensor, "batch classes"]]:
    """Mix each picture with the one half a batch further, or leave the whole batch as it is.

    The batch comes in random order, so the partner is a random one; at half a batch's distance
    it is never a repetition of the same picture, and with several processes it lies in the same.
    """
    targets = F.one_hot(labels, num_classes).to(pictures.dtype)
    if not draws.once.random() < recipe.mix_probability:
        return pictures, targets
    cut = recipe.cutmix > 0 and (recipe.mixup == 0 or draws.once.random() < 0.5)
    alpha = recipe.cutmix if cut else recipe.mixup
    share = draws.once.beta(alpha, alpha)  # of the picture itself
    partner = torch.arange(len(pictures)).roll(-(len(pictures) // 2)).to(pictures.device)
    if cut:
        height, width = pictures.shape[2:]
        rows, columns = box(height, width, share, draws)
        share = 1 - len(rows) * len(columns) / (height * width)
        pictures = pictures.clone()
        top, left = slice(rows.start, rows.stop), slice(columns.start, columns.stop)
        pictures[:, :, top, left] = pictures[partner][:, :, top, left]
    else:
        pictures = pictures * share + pictures[partner] * (1 - share)
    return pictures, targets * share + targets[partner] * (1 - share)


def box(height: int, width: int, share: float, draws: Draws) -> tuple[range, range]:
    """Rows and columns to replace: ``1 - share`` of the area, less what sticks out."""

    def stretch(length: int) -> range:
        half = round(length * (1 - share) ** 0.5) // 2
        centre = int(draws.once.integers(length))
        return range(max(centre - half, 0), min(centre + half, length))

    return stretch(height), stretch(width)
