"""The chapter's detector on disk: float16, with what it took to make it."""

import json
from pathlib import Path

from safetensors.torch import save

from vitbook.files import data_folder, write_atomically
from vitbook.model_utilities import digest
from vitbook.studies.detection.detector import Detector, make_detector
from vitbook.training.engine.checkpoint_file import CheckpointError, read_tensors

FILE = "checkpoints/studies/detection.safetensors"  # in the data folder


def save_detector(path: str | Path, model: Detector, about: dict) -> Path:
    """Write a detector in float16, whole or not at all.

    Args:
        about: how it was trained and what came of it.

    Raises:
        CheckpointError: weights that are NaN or infinite, maybe only in float16.
        OSError: the file could not be written.
    """
    state = {name: tensor.cpu().half() for name, tensor in model.state_dict().items()}
    if odd := [name for name, tensor in state.items() if not tensor.isfinite().all()]:
        raise CheckpointError(f"{odd[0]} holds NaN or infinity as float16: not written")
    words = {"detector": json.dumps(about)}
    return write_atomically(path, save(state, metadata=words | {"digest": digest(state, words)}))


def load_detector(path: str | Path | None = None) -> tuple[Detector, dict]:
    """A detector in evaluation mode, and how it was trained; by default the chapter's own.

    Raises:
        OSError: no such file.
        CheckpointError: the file is damaged, or no detector of :func:`make_detector`'s sizes.
    """
    path = data_folder() / FILE if path is None else Path(path)
    state, words = read_tensors(path)
    if "detector" not in words or words.get("digest") != digest(
        state, {"detector": words["detector"]}
    ):
        raise CheckpointError(
            f"{path} is damaged or no detector: expected a file that `vitbook measure detection` "
            "wrote; copy it again, or measure again"
        )
    model = make_detector()
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        raise CheckpointError(
            f"{path} holds a detector of other sizes: measure again with this vitbook"
        ) from error
    return model.eval(), json.loads(words["detector"])
