"""What learned without labels beside a body: how it travels in the body's checkpoint."""

from pathlib import Path

import torch

from vitbook.training.engine.checkpoints import CheckpointError, load_checkpoint
from vitbook.training.objectives.learner import Learner
from vitbook.training.objectives.questions import LEARNERS


def load_learner(path: str | Path) -> Learner:
    """A body together with what learned beside it: a predictor of colours, a projector.

    The slow copy of a :class:`~.two_views.BYOL` is not kept: it begins as the body again.

    Args:
        path: of a checkpoint, or the name of one of the book's own.

    Returns:
        A learner as the recipe of the run says, such as
        :class:`~.masked_patches.MaskedPatches`, in evaluation mode, on the CPU.

    Raises:
        FileNotFoundError: no such file.
        CheckpointError: the file is damaged, its run learned labels, or it holds the body alone.
    """
    checkpoint = load_checkpoint(path)
    recipe = checkpoint.provenance.get("recipe")
    objective = recipe.get("objective") if isinstance(recipe, dict) else None
    if objective not in list(LEARNERS):  # of a file, it may be anything
        raise CheckpointError(
            f"{path} learned {'labels' if not objective else repr(objective)}: expected a run with "
            f"an objective, {', '.join(LEARNERS)}; take load_checkpoint"
        )
    learner = LEARNERS[objective](checkpoint.model)
    usual, found = learner.own_parts(), checkpoint.beside
    fits = usual.keys() == found.keys() and all(
        usual[name].shape == tensor.shape for name, tensor in found.items()
    )
    if not fits:
        raise CheckpointError(
            f"{path} holds {', '.join(found) or 'nothing'} beside its body: expected "
            f"{', '.join(usual)} of a {type(learner).__name__}; train it again with this vitbook"
        )
    with torch.no_grad():
        for name, tensor in found.items():
            usual[name].copy_(tensor)
    learner.begin_again()
    return learner.eval()
