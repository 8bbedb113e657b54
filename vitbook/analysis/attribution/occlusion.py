"""How far every logit falls when a part of the image is taken away: one sweep for all classes."""

import torch
from einops import rearrange, repeat
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.analysis.attribution.baselines import Baseline, baseline_images, check_answer
from vitbook.analysis.capture.layout import Pair, pixels_per_patch
from vitbook.analysis.capture.running import batches, logits_of, takes_images
from vitbook.model_utilities import evaluating


@takes_images()
def occlusion_drops(
    model: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    grid_size: Pair,
    *,
    baseline: Baseline = "mean",
    batch_size: int = 64,
) -> Float[Tensor, "batch classes rows columns"]:
    """What each logit loses with each cell of a grid: logits of the image less those without it.

    As :func:`~.attribution.patch_occlusion`, for all classes at the price of one, and with cells
    of any size that divides the image: with a grid of (2, 2), its quarters.

    Args:
        model: gives logits, "batch classes"; left as it came.
        images: as the model takes them.
        grid_size: (rows, columns) of the cells.
        baseline: what a cell becomes, as in :func:`~.baselines.baseline_images`.
        batch_size: images that the model is given at once.

    Raises:
        ValueError: a grid that does not divide the images; a model that gives no logits; images
            that are NaN, or none.
        TypeError: images that are not floating point.

    Example:
        >>> import vitbook
        >>> from vitbook.analysis import occlusion_drops
        >>> from vitbook.datasets import load, normalize
        >>> model = vitbook.load_checkpoint("digits-vit_micro_patch2_8-digits-seed0").model
        >>> drops = occlusion_drops(model, normalize(load("digits", "test").images[:3]), (2, 2))
        >>> tuple(drops.shape)
        (3, 10, 2, 2)
    """
    down, across = pixels_per_patch(model, images, grid_size)
    cells = grid_size[0] * grid_size[1]
    gone = torch.eye(cells, dtype=torch.bool, device=images.device)
    gone = repeat(
        gone, "cell (r c) -> cell 1 (r h) (c w)", r=grid_size[0], h=down, w=across
    )  # fmt: skip
    nothing = baseline_images(images, baseline, model)
    found = []
    with torch.no_grad(), evaluating(model):
        for image, empty in zip(images, nothing, strict=True):
            asked = torch.cat([image[None], torch.where(gone, empty, image)])
            logits = torch.cat(
                [logits_of(model)(batch) for batch in batches(model, asked, batch_size)]
            )
            found.append(logits[0] - logits[1:])
            check_answer(found[-1], empty, image)
    return rearrange(
        found, "batch (rows columns) classes -> batch classes rows columns", rows=grid_size[0]
    )
