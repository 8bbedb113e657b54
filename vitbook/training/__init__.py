"""Recipes, the loop, objectives, transfer, checkpoints, and runs of the plan.

What changes weights, or fits something to frozen features, belongs here. Networks belong in
`models`, rows of what came out in `results`. A run is decided by its recipe, its data and its
seed, goes on after a kill to the same bits, and never overwrites what another wrote.
"""

from vitbook.training.checkpoints import (
    Checkpoint,
    CheckpointError,
    load_checkpoint,
    save_checkpoint,
)
from vitbook.training.distillation import (
    SCALINGS,
    distillation_loss,
    hard_loss,
    soft_loss,
)
from vitbook.training.evaluation import evaluate, predict
from vitbook.training.experiments import (
    Experiment,
    ExperimentError,
    read_experiments,
    standing,
)
from vitbook.training.fine_tuning import learning_parts
from vitbook.training.learner_files import load_learner
from vitbook.training.loop import TrainingRun, train
from vitbook.training.masked_autoencoder import (
    MaskedAutoencoder,
    MeanPatchNulls,
    Reconstruction,
    mean_patch_nulls,
)
from vitbook.training.masked_patches import ColorGuesses, MaskedPatches, evaluate_colors
from vitbook.training.masks import ChosenPatches, choose_masked
from vitbook.training.memory import BatchTooLargeError
from vitbook.training.next_pixels import (
    NextPixels,
    PixelGuesses,
    PlaceNull,
    commonest_level,
    continue_pixels,
    evaluate_pixels,
    grey_levels,
    level_bytes,
)
from vitbook.training.oscillation import Oscillations, count_oscillations
from vitbook.training.patch_colors import (
    class_colors,
    color_classes,
    commonest_color,
    mean_colors,
)
from vitbook.training.planned import PlannedRun
from vitbook.training.processes import joined
from vitbook.training.quantization import (
    SCHEMES,
    QuantizationError,
    Scheme,
    quantize_model,
    stored_bytes,
)
from vitbook.training.recipe import Recipe
from vitbook.training.recipes import RECIPES, get_recipe
from vitbook.training.recorder import RunStoppedError, TrainingDivergedError
from vitbook.training.runs import RunInUseError, run
from vitbook.training.sharpness_aware import Sharpness, sharpness
from vitbook.training.start import StartError, start_from
from vitbook.training.state import UnfinishedRunError
from vitbook.training.teachers import TeacherError, load_teacher
from vitbook.training.transfer_scores import TransferScore, projected_scores, transfer_score
from vitbook.training.two_views import BYOL, SimCLR
from vitbook.training.view_losses import contrastive_loss, prediction_loss

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
