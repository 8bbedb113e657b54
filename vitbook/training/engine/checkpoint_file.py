"""The file of a checkpoint: its formats, and whether its bytes are those that were written."""

import json
from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor

from vitbook.model_utilities import digest
from vitbook.models.weights.formats import WeightsError, refusal

FORMAT = 4
# 1 had no constants and no digest, 2 a digest of the weights alone, 3 nothing beside the model.
KNOWN = (1, 2, 3, 4)
BESIDE = "beside:"  # in front of the names of tensors that are no part of the model


class CheckpointError(WeightsError):
    """A file that is no checkpoint of ours, or one for another model."""


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a safetensors file, whoever wrote it, and the words beside them.

    Raises:
        OSError: the file cannot be read.
        CheckpointError: it is no such file.
    """
    path.open("rb").close()  # says truly why it cannot be read, where safetensors does not
    try:
        with safe_open(path, framework="pt") as file:
            words = file.metadata() or {}
            state = {name: file.get_tensor(name) for name in file.keys()}
    except (SafetensorError, OSError) as error:
        expected = "a checkpoint of vitbook, or Google's .npz"
        why = error if path.stat().st_size else "it is empty"
        damaged = (
            f"{path} is damaged or no safetensors file ({why}): expected {expected}; copy it again "
            "or train it again"
        )
        raise CheckpointError(refusal(path, expected, damaged)) from error
    return state, words


def describe(path: Path, state: dict[str, Tensor], words: dict[str, str]) -> dict:
    """What a whole file of ours says of its tensors.

    Raises:
        CheckpointError: it is damaged, not ours, or of a later format.
    """
    text = words.get("vitbook")
    if text is None:
        raise CheckpointError(
            f"{path} has no description of its model: expected a checkpoint of vitbook; weights by "
            "our names or timm's are read into a model that is given, load_checkpoint(path, model)"
        )
    try:
        about = json.loads(text)
        written = about["format"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise CheckpointError(
            f"{path} has a damaged description ({error!r}): copy it again or train it again"
        ) from error
    if written not in KNOWN:
        raise CheckpointError(
            f"{path} is of format {str(written)[:20]!r}: this vitbook reads "
            f"{', '.join(map(str, KNOWN))}; take a later one"
        )
    if written == 1:
        damaged = False
    elif written == 2:
        damaged = about.get("digest") != digest(state)
    else:
        damaged = words.get("digest") != digest(state, {"vitbook": text})
    if damaged:
        raise CheckpointError(
            f"{path} is damaged: its bytes are not those that were written; copy it again"
        )
    for name, tensor in state.items():
        if not tensor.isfinite().all():
            raise CheckpointError(f"{path} holds NaN or infinity in {name}: train it again")
    return about
