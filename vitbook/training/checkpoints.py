"""Weights on disk: safetensors, never pickle, with what it takes to build the model again."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import nn

from vitbook.files import write_atomically
from vitbook.models import ModelSpec, create_model
from vitbook.models.pretrained import check_state
from vitbook.results import data_folder
from vitbook.training.sharing import fill, state_once

FORMAT = 1


class CheckpointError(ValueError):
    """A file that is no checkpoint of ours, or one for another model."""


@dataclass(frozen=True)
class Checkpoint:
    """A model and where it comes from.

    Attributes:
        model: in evaluation mode, on the CPU.
        class_names: what each logit means.
        provenance: how it was trained: data set, recipe, seed, accuracy, device, versions.
    """

    model: nn.Module
    class_names: tuple[str, ...]
    provenance: dict


def save_checkpoint(
    path: str | Path,
    model: nn.Module,
    *,
    class_names: tuple[str, ...] = (),
    provenance: dict | None = None,
    dtype: torch.dtype | None = None,
) -> Path:
    """Write a model of the catalogue to one file, whole or not at all.

    Args:
        dtype: of the stored weights, for example torch.float16; by default as they are.

    Raises:
        CheckpointError: a model that :func:`vitbook.create_model` did not make.
        OSError: the file could not be written; what was there before is untouched.
    """
    spec = getattr(model, "spec", None)
    if spec is None:
        raise CheckpointError(
            f"{type(model).__name__} does not say how it was made: save a model that "
            "vitbook.create_model built, or use safetensors.torch.save_model"
        )
    state = {
        name: (tensor.to(dtype) if dtype and tensor.is_floating_point() else tensor)
        .detach()
        .cpu()
        .contiguous()
        for name, tensor in state_once(model).items()
    }
    about = {
        "format": FORMAT,
        "spec": asdict(spec),
        "class_names": list(class_names),
        "provenance": provenance or {},
    }
    return write_atomically(path, save(state, metadata={"vitbook": json.dumps(about)}))


def load_checkpoint(path: str | Path, model: nn.Module | None = None) -> Checkpoint:
    """Read a checkpoint, and build its model unless one is given.

    Args:
        path: a file that :func:`save_checkpoint` wrote, or the name of one of the book's own,
            without its ending.
        model: filled with the weights, which must fit; nothing is copied if they do not.

    Raises:
        FileNotFoundError: no such file.
        CheckpointError: the file is damaged, not ours, or for another model.
    """
    path = Path(path)
    shipped = data_folder() / "checkpoints" / f"{path}.safetensors"
    if not path.is_file() and shipped.is_file():
        path = shipped
    if not path.is_file():
        own = ", ".join(file.stem for file in sorted(shipped.parent.glob("*.safetensors")))
        raise FileNotFoundError(
            f"no checkpoint {path}: train one with `vitbook train`, or mend the path; "
            f"the book's own: {own or 'none'}"
        )
    state, about = _read(path)
    try:
        spec = dict(about["spec"])
        if isinstance(spec["image_size"], list):
            spec["image_size"] = tuple(spec["image_size"])
        spec = ModelSpec(**spec)
        class_names, provenance = tuple(about["class_names"]), about["provenance"]
        target = model if model is not None else create_model(**_arguments(spec))
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path} was written for another vitbook ({error}): train it again with this one"
        ) from error
    own = state_once(target)
    try:
        check_state(state, own, path.name)
    except ValueError as error:
        raise CheckpointError(f"{error} (the file holds a {spec.name})") from error
    fill(target, {name: tensor.to(own[name].dtype) for name, tensor in state.items()})
    return Checkpoint(target.eval(), class_names, provenance)


def _arguments(spec: ModelSpec) -> dict:
    return asdict(spec) | {"image_size": spec.image_size}


def _read(path: Path) -> tuple[dict[str, torch.Tensor], dict]:
    try:
        with safe_open(path, framework="pt") as file:
            about = (file.metadata() or {}).get("vitbook")
            state = {name: file.get_tensor(name) for name in file.keys()}
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"{path} is damaged or no safetensors file ({error}): expected a checkpoint of "
            "vitbook; copy it again or train it again"
        ) from error
    if about is None:
        raise CheckpointError(
            f"{path} has no description of its model: expected a checkpoint of vitbook; weights "
            "of others are loaded by vitbook.models.pretrained"
        )
    try:
        return state, json.loads(about)
    except json.JSONDecodeError as error:
        raise CheckpointError(
            f"{path} has a damaged description ({error}): copy it again or train it again"
        ) from error
