"""Recipes, the loop, objectives, transfer, checkpoints, and runs of the plan.

What changes weights, or fits something to frozen features, belongs here. Networks belong in
`models`, recipes, the plan and rows of what came out in `runs`. A run is decided by its recipe, its
data and its seed, goes on after a kill to the same bits, and never overwrites what another wrote.
"""

from vitbook.training.engine.checkpoints import (
    Checkpoint,
    CheckpointError,
    load_checkpoint,
    save_checkpoint,
)
from vitbook.training.engine.evaluation import evaluate, predict
from vitbook.training.engine.fine_tuning import learning_parts
from vitbook.training.engine.loop import TrainingRun, train
from vitbook.training.engine.memory import BatchTooLargeError
from vitbook.training.engine.processes import joined
from vitbook.training.engine.recorder import RunStoppedError, TrainingDivergedError
from vitbook.training.engine.state import UnfinishedRunError
from vitbook.training.objectives.distillation import (
    distillation_loss,
    hard_loss,
    soft_loss,
)
from vitbook.training.objectives.teachers import TeacherError, load_teacher
from vitbook.training.one_run import RunInUseError, check_run, run
from vitbook.training.pace import TooLongError
from vitbook.training.roles import AtScale
from vitbook.training.scales import at_scale
from vitbook.training.transfer.sparse_autoencoder import (
    SparseAutoencoder,
    SparseFit,
    fit_sparse_autoencoder,
)
from vitbook.training.transfer.start import StartError, start_from

__all__ = [
    "AtScale",
    "BatchTooLargeError",
    "Checkpoint",
    "CheckpointError",
    "RunInUseError",
    "RunStoppedError",
    "SparseAutoencoder",
    "SparseFit",
    "StartError",
    "TeacherError",
    "TooLongError",
    "TrainingDivergedError",
    "TrainingRun",
    "UnfinishedRunError",
    "at_scale",
    "check_run",
    "distillation_loss",
    "evaluate",
    "fit_sparse_autoencoder",
    "hard_loss",
    "joined",
    "learning_parts",
    "load_checkpoint",
    "load_teacher",
    "predict",
    "run",
    "save_checkpoint",
    "soft_loss",
    "start_from",
    "train",
]
