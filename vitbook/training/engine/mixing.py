"""Mixup and cutmix: an image made of two, and a target made of two."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from vitbook.runs.recipe import Recipe
from vitbook.training.engine.batch_random import BatchRandom


def mix(
    images: Float[Tensor, "batch channels height width"],
    labels: Int64[Tensor, "batch"],
    num_classes: int,
    recipe: Recipe,
    rng: BatchRandom,
) -> tuple[Float[Tensor, "batch channels height width"], Float[Tensor, "batch classes"]]:
    """Mix each image with the one half a batch further, or leave the whole batch as it is.

    The batch comes in random order, so the partner is a random one; at half a batch's distance
    it is never a repetition of the same image, and with several processes it lies in the same.
    """
    targets = F.one_hot(labels, num_classes).to(images.dtype)
    if not rng.shared.random() < recipe.mix_probability:
        return images, targets
    cut = recipe.cutmix > 0 and (recipe.mixup == 0 or rng.shared.random() < 0.5)
    alpha = recipe.cutmix if cut else recipe.mixup
    share = rng.shared.beta(alpha, alpha)  # of the image itself
    partner = torch.arange(len(images)).roll(-(len(images) // 2)).to(images.device)
    if cut:
        height, width = images.shape[2:]
        rows, columns = box(height, width, share, rng)
        share = 1 - len(rows) * len(columns) / (height * width)
        images = images.clone()
        top, left = slice(rows.start, rows.stop), slice(columns.start, columns.stop)
        images[:, :, top, left] = images[partner][:, :, top, left]
    else:
        images = images * share + images[partner] * (1 - share)
    return images, targets * share + targets[partner] * (1 - share)


def box(height: int, width: int, share: float, rng: BatchRandom) -> tuple[range, range]:
    """Rows and columns to replace: ``1 - share`` of the area, less what sticks out."""

    def stretch(length: int) -> range:
        half = round(length * (1 - share) ** 0.5) // 2
        centre = int(rng.shared.integers(length))
        return range(max(centre - half, 0), min(centre + half, length))

    return stretch(height), stretch(width)
