"""Recipes, the loop, objectives, transfer, checkpoints, and runs of the plan.

What changes weights, or fits something to frozen features, belongs here. Networks belong in
`models`, rows of what came out in `results`. A run is decided by its recipe, its data and its
seed, goes on after a kill to the same bits, and never overwrites what another wrote.
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
from vitbook.training.engine.oscillation import Oscillations, count_oscillations
from vitbook.training.engine.processes import joined
from vitbook.training.engine.recorder import RunStoppedError, TrainingDivergedError
from vitbook.training.engine.sharpness_aware import Sharpness, sharpness
from vitbook.training.engine.state import UnfinishedRunError
from vitbook.training.experiments import (
    Experiment,
    ExperimentError,
    read_experiments,
    standing,
)
from vitbook.training.objectives.distillation import (
    SCALINGS,
    distillation_loss,
    hard_loss,
    soft_loss,
)
from vitbook.training.objectives.learner_files import load_learner
from vitbook.training.objectives.masked_autoencoder import (
    MaskedAutoencoder,
    MeanPatchNulls,
    Reconstruction,
    mean_patch_nulls,
)
from vitbook.training.objectives.masked_patches import ColorGuesses, MaskedPatches, evaluate_colors
from vitbook.training.objectives.masks import ChosenPatches, choose_masked
from vitbook.training.objectives.next_pixels import (
    NextPixels,
    PixelGuesses,
    PlaceNull,
    commonest_level,
    continue_pixels,
    evaluate_pixels,
    grey_levels,
    level_bytes,
)
from vitbook.training.objectives.patch_colors import (
    class_colors,
    color_classes,
    commonest_color,
    mean_colors,
)
from vitbook.training.objectives.teachers import TeacherError, load_teacher
from vitbook.training.objectives.two_views import BYOL, SimCLR
from vitbook.training.objectives.view_losses import contrastive_loss, prediction_loss
from vitbook.training.planned import PlannedRun
from vitbook.training.recipe import Recipe
from vitbook.training.recipes import RECIPES, get_recipe
from vitbook.training.runs import RunInUseError, run
from vitbook.training.transfer.quantization import (
    SCHEMES,
    QuantizationError,
    Scheme,
    quantize_model,
    stored_bytes,
)
from vitbook.training.transfer.start import StartError, start_from
from vitbook.training.transfer.transfer_scores import (
    TransferScore,
    projected_scores,
    transfer_score,
)

__all__ = [
    "BYOL",
    "RECIPES",
    "SCALINGS",
    "SCHEMES",
    "BatchTooLargeError",
    "Checkpoint",
    "CheckpointError",
    "ChosenPatches",
    "ColorGuesses",
    "Experiment",
    "ExperimentError",
    "MaskedAutoencoder",
    "MaskedPatches",
    "MeanPatchNulls",
    "NextPixels",
    "Oscillations",
    "PixelGuesses",
    "PlaceNull",
    "PlannedRun",
    "QuantizationError",
    "Recipe",
    "Reconstruction",
    "RunInUseError",
    "RunStoppedError",
    "Scheme",
    "Sharpness",
    "SimCLR",
    "StartError",
    "TeacherError",
    "TrainingDivergedError",
    "TrainingRun",
    "TransferScore",
    "UnfinishedRunError",
    "choose_masked",
    "class_colors",
    "color_classes",
    "commonest_color",
    "commonest_level",
    "continue_pixels",
    "contrastive_loss",
    "count_oscillations",
    "distillation_loss",
    "evaluate",
    "evaluate_colors",
    "evaluate_pixels",
    "get_recipe",
    "grey_levels",
    "hard_loss",
    "joined",
    "learning_parts",
    "level_bytes",
    "load_checkpoint",
    "load_learner",
    "load_teacher",
    "mean_colors",
    "mean_patch_nulls",
    "predict",
    "prediction_loss",
    "projected_scores",
    "quantize_model",
    "read_experiments",
    "run",
    "save_checkpoint",
    "sharpness",
    "soft_loss",
    "standing",
    "start_from",
    "stored_bytes",
    "train",
    "transfer_score",
]
