"""Labels that move: tokens that the model which learns makes itself, and what holds them apart.

The command line trains by :data:`LEARNERS`, which it finds by this name.
"""

from vitbook.studies.moving_labels.blocks import Blocks, choose_blocks
from vitbook.studies.moving_labels.latent_blocks import LatentBlocks
from vitbook.studies.moving_labels.token_labels import (
    CenteredLabels,
    FixedLabels,
    SlowLabels,
    StoppedLabels,
    TokenLabels,
    TokensApart,
    found,
)
from vitbook.studies.moving_labels.views import blocks_on
from vitbook.training.objectives.learner import Learner

__all__ = [
    "LEARNERS",
    "Blocks",
    "CenteredLabels",
    "FixedLabels",
    "LatentBlocks",
    "SlowLabels",
    "StoppedLabels",
    "TokenLabels",
    "TokensApart",
    "blocks_on",
    "choose_blocks",
    "found",
]

# By the objective of a recipe.
LEARNERS: dict[str, type[Learner]] = {
    "token_free": TokenLabels,
    "token_stopped": StoppedLabels,
    "token_fixed": FixedLabels,
    "token_slow": SlowLabels,
    "token_centered": CenteredLabels,
    "token_contrast": TokensApart,
    "ijepa": LatentBlocks,
}
