"""Learning without labels: six tasks that images set, what was learned of them, and how it looks.

The command line trains by :data:`LEARNERS`, which it finds by this name.
"""

from pathlib import Path

import torch
from jaxtyping import UInt8
from torch import Tensor

from vitbook.model_utilities import evaluating
from vitbook.studies.self_supervision.masked_autoencoder import MaskedAutoencoder
from vitbook.studies.self_supervision.masked_patches import MaskedPatches
from vitbook.studies.self_supervision.next_pixels import NextPixels, grey_levels, level_bytes
from vitbook.studies.self_supervision.patch_colors import color_classes, mean_colors
from vitbook.studies.self_supervision.slow_copy import BYOL, DINO
from vitbook.studies.self_supervision.two_views import SimCLR, contrastive_loss
from vitbook.training import load_checkpoint
from vitbook.training.objectives.followers import distillation_targets
from vitbook.training.objectives.learner import Learner
from vitbook.training.objectives.masks import choose_masked
from vitbook.training.objectives.questions import learners
from vitbook.training.objectives.readings import (
    mean_token,
    mean_tokens,
    nearest_other,
    side_by_side,
    spread,
)

__all__ = [
    "BYOL",
    "DINO",
    "LEARNERS",
    "MaskedAutoencoder",
    "MaskedPatches",
    "NextPixels",
    "SimCLR",
    "choose_masked",
    "color_classes",
    "continue_pixels",
    "contrastive_loss",
    "distillation_targets",
    "load_learner",
    "mean_colors",
    "mean_token",
    "mean_tokens",
    "nearest_other",
    "side_by_side",
    "spread",
]

# By the objective of a recipe.
LEARNERS: dict[str, type[Learner]] = {
    "masked_patches": MaskedPatches,
    "simclr": SimCLR,
    "byol": BYOL,
    "dino": DINO,
    "next_pixels": NextPixels,
    "mae": MaskedAutoencoder,
}


def load_learner(name: str | Path) -> Learner:
    """A body together with what learned beside it, such as a predictor of colours.

    The slow copy of a :class:`BYOL` is not kept: it begins as the body again.

    Args:
        name: of a checkpoint of a run with an objective.
    """
    checkpoint = load_checkpoint(name)
    learner = learners()[checkpoint.provenance["recipe"]["objective"]](checkpoint.model)
    parts = learner.own_parts()
    with torch.no_grad():
        for part, learned in checkpoint.beside.items():
            parts[part].copy_(learned)
    learner.begin_again()
    return learner.eval()


@torch.no_grad()
def continue_pixels(
    learner: NextPixels,
    images: UInt8[Tensor, "batch 1 height width"],
    rows: int,
    generator: torch.Generator,
) -> UInt8[Tensor, "batch 1 height width"]:
    """Images as the model goes on with them, pixel by pixel, behind their first rows.

    Args:
        images: what stands below ``rows`` is not looked at.
        generator: draws each pixel by its probability.
    """
    height, width = images.shape[2:]
    greys = grey_levels(images, learner.levels).flatten(1)
    greys[:, rows * width :] = 0
    with evaluating(learner):
        for place in range(rows * width, height * width):
            shares = learner.predict(greys)[:, place].float().softmax(dim=-1)
            greys[:, place] = torch.multinomial(shares, 1, generator=generator)[:, 0]
    return level_bytes(greys, learner.levels).unflatten(1, (1, height, width))
