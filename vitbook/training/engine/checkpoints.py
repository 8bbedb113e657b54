"""Weights on disk: safetensors, never pickle, with what it takes to build the model again."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import metadata
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor, nn

from vitbook.colors import OURS, colors_of, say_colors
from vitbook.datasets.dataset import check_class_names
from vitbook.errors import UnknownNameError
from vitbook.files import write_atomically
from vitbook.model_utilities import COMPILED, digest, faults_of, unwrapped
from vitbook.models import ModelSpec
from vitbook.models.catalog import create_again
from vitbook.models.constants import constants_of, set_constants
from vitbook.models.weights.formats import is_npz
from vitbook.models.weights.google import load_google, model_of_google
from vitbook.models.weights.renaming import check_state
from vitbook.models.weights.timm import load_named
from vitbook.runs import data_folder
from vitbook.training.engine.checkpoint_file import (
    BESIDE,
    FORMAT,
    CheckpointError,
    describe,
    read_tensors,
)  # fmt: skip
from vitbook.training.engine.tied_weights import load_unique_state, unique_state

Plant = Callable[[nn.Module, str], None]


@dataclass(frozen=True)
class Checkpoint:
    """A model and where it comes from.

    Attributes:
        model: in evaluation mode, on the CPU.
        class_names: what each logit means.
        provenance: how it was trained: data set, recipe, seed, accuracy, device, versions.
        beside: what learned with the model and is no part of it, such as a predictor of colours,
            by name. Empty, if it learned labels.
    """

    model: nn.Module
    class_names: tuple[str, ...]
    provenance: dict
    beside: dict[str, Tensor] = field(default_factory=dict)


def save_checkpoint(
    path: str | Path,
    model: nn.Module,
    *,
    class_names: tuple[str, ...] = (),
    provenance: dict | None = None,
    dtype: torch.dtype | None = None,
    beside: dict[str, Tensor] | None = None,
) -> Path:
    """Write a model of the catalogue to one file, whole or not at all.

    What ``torch.compile`` or DataParallel put around the model, or around a part, is left out.

    Args:
        dtype: of the stored weights, for example torch.float16; by default as they are.
        beside: tensors that learned with the model and are no part of it, by name.

    Raises:
        CheckpointError: a model that :func:`vitbook.create_model` did not make, or weights that
            are NaN or infinite, maybe only in ``dtype``; nothing is written.
        TypeError, ValueError: class names that a data set may not have, or not one an output.
        OSError: the file could not be written; what was there before is untouched.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> import vitbook
        >>> from vitbook.training import save_checkpoint
        >>> model = vitbook.create_model("vit_micro_patch2_8", num_classes=2)
        >>> with TemporaryDirectory() as folder:
        ...     path = save_checkpoint(f"{folder}/own.safetensors", model, provenance={"seed": 0})
        ...     print(path.name, vitbook.load_checkpoint(path).provenance)
        own.safetensors {'seed': 0}
    """
    model = unwrapped(model)
    spec = getattr(model, "spec", None)
    if spec is None:
        raise CheckpointError(
            f"{type(model).__name__} does not say how it was made: save a model that "
            "vitbook.create_model built, or use safetensors.torch.save_model"
        )
    if len(class_names):
        class_names = check_class_names(class_names)
        if len(class_names) != spec.num_classes:
            raise CheckpointError(
                f"{len(class_names)} class names for {spec.num_classes} outputs: expected one for "
                "each, or none"
            )
    if odd := [name for name in model.state_dict() if name.startswith(BESIDE)]:
        raise CheckpointError(
            f"{odd[0]} is a part of the model: names that begin so are of what learned beside it; "
            "rename it"
        )
    parts = unique_state(model) | {f"{BESIDE}{name}": t for name, t in (beside or {}).items()}
    state = {
        name: (tensor.to(dtype) if dtype and tensor.is_floating_point() else tensor)
        .detach()
        .cpu()
        .contiguous()
        for name, tensor in parts.items()
    }
    for name, tensor in state.items():
        if not tensor.isfinite().all():
            kind = str(tensor.dtype).removeprefix("torch.")
            advice = "" if dtype is None else "; leave --half out, or give a wider dtype"
            raise CheckpointError(f"{name} holds NaN or infinity as {kind}: not written{advice}")
    about = {
        "format": FORMAT,
        "spec": asdict(spec),
        "constants": constants_of(model),
        "class_names": list(class_names),
        "provenance": provenance or {},
    }
    if (colors := colors_of(model)) not in (None, OURS):
        about["colors"] = asdict(colors)
    if faults := faults_of(model):
        about["faults"] = faults
    words = {"vitbook": json.dumps(about)}
    return write_atomically(path, save(state, metadata=words | {"digest": digest(state, words)}))


def load_checkpoint(
    path: str | Path,
    model: nn.Module | None = None,
    *,
    image_size: int | Sequence[int] | None = None,
    plant: Plant | None = None,
) -> Checkpoint:
    """Read a checkpoint, and build its model unless one is given.

    A checkpoint also restores the constants that change the forward pass but are not weights: the
    epsilon of the norms, and the epsilon and scale of Performer attention. A model that
    learned with a planted fault is built with it by ``plant``.

    Args:
        path: a file that :func:`save_checkpoint` wrote, or the name of one of the book's own,
            without its ending; or a ``.npz`` of Google's, see
            :func:`~vitbook.models.weights.google.load_google`.
        model: filled with the weights, which must fit; nothing is copied if they do not. It may
            be filled from a safetensors file of others too, by our names or timm's.
        image_size: build the model for images of this size, with its table of positions
            resized; by default the size that it learned from.
        plant: is given the model and the name of a fault, and plants it, as
            ``vitbook.studies.pitfalls.plant`` does.

    Raises:
        FileNotFoundError: no such file.
        CheckpointError: the file is damaged, not ours, of a later format, or for another model,
            size or fault.
        WeightsError: a ``.npz`` that is none of Google's, or of no model of the catalogue.

    Example:
        >>> import vitbook
        >>> checkpoint = vitbook.load_checkpoint("digits-vit_micro_patch2_8-digits-seed0")
        >>> checkpoint.model.spec.name, len(checkpoint.class_names)
        ('vit_micro_patch2_8', 10)
    """
    path = Path(path)
    shipped = data_folder() / "checkpoints" / f"{path}.safetensors"
    if not path.is_file() and shipped.is_file():
        path = shipped
    if not path.is_file():
        folder = data_folder() / "checkpoints"
        own = ", ".join(file.stem for file in sorted(folder.glob("*.safetensors")))
        raise FileNotFoundError(
            f"no checkpoint {path}: train one with `vitbook train`, or mend the path; "
            f"the book's own: {own or _how_they_come()}"
        )
    if is_npz(path):
        return _of_google(path, model, image_size)
    state, words = read_tensors(path)
    if model is not None and "vitbook" not in words:  # of others
        try:
            load_named(model, state, path.name)
        except ValueError as error:
            raise CheckpointError(str(error)) from error
        return Checkpoint(model.eval(), (), {"weights": path.name})
    about = describe(path, state, words)
    state = _without_compile(state)
    names = [name for name in state if name.startswith(BESIDE)]
    beside = {name.removeprefix(BESIDE): state.pop(name) for name in names}

    def another(error: Exception) -> CheckpointError:
        return CheckpointError(
            f"{path} was written for another vitbook ({error}): train it again with this one"
        )

    try:
        spec = dict(about["spec"])
        if isinstance(spec["image_size"], list):
            spec["image_size"] = tuple(spec["image_size"])
        spec = ModelSpec(**spec)
        class_names, provenance = tuple(about["class_names"]), dict(about["provenance"])
        constants = _without_compile(about.get("constants", {}))
        faults = _faults(about)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise another(error) from error
    if faults and model is None and plant is None:
        raise CheckpointError(
            f"{path.name} holds a model {_with(faults)}: give `plant`, which plants it, such as "
            "vitbook.studies.pitfalls.plant, or take a model without one"
        )
    if image_size is not None:
        state, spec = _resized(state, spec, image_size, faults, plant)
    try:
        with torch.device("meta"):  # of whatever size: memory is taken once the weights fit
            usual = unwrapped(model) if model is not None else _built(spec, faults, plant)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise another(error) from error
    ours, theirs = tuple(sorted(faults)), faults_of(usual)
    if ours != theirs:  # of a given model: a built one has them
        raise CheckpointError(
            f"{path.name} holds weights of a model {_with(ours)}, the given one is "
            f"{_with(theirs)}: expected the same; give no model, and it is built as it was"
        )
    own = unique_state(usual)
    if model is not None and any(tensor.is_meta for tensor in own.values()):
        raise CheckpointError(
            "the model is on meta, where there is no memory: build it on a device"
        )
    try:
        check_state(state, own, path.name)
        set_constants(usual, constants)
    except ValueError as error:
        raise CheckpointError(f"{error} (the file holds a {spec.name})") from error
    target = usual if model is not None else _built(spec, faults, plant)
    set_constants(target, constants)
    load_unique_state(target, {name: tensor.to(own[name].dtype) for name, tensor in state.items()})
    if about.get("colors"):
        say_colors(target, *(tuple(about["colors"][key]) for key in ("mean", "std")))
    model = target if model is None else model
    return Checkpoint(model.eval(), class_names, provenance, beside)


def _of_google(
    path: Path, model: nn.Module | None, image_size: int | Sequence[int] | None
) -> Checkpoint:
    if model is None:
        model = model_of_google(path, image_size)
    else:
        load_google(model, path)
    return Checkpoint(model.eval(), (), {"weights": f"{path.name}, of Google's ViT code"})


def _without_compile(named: dict) -> dict:
    """Once the names that ``torch.compile`` gives were written as they are."""
    return {name.replace(f"{COMPILED}.", ""): value for name, value in dict(named).items()}


def _faults(about: dict) -> list[str]:
    """Of the model, and of the recipe that it learned by."""
    recipe = dict(about["provenance"]).get("recipe")
    of_recipe = recipe.get("fault", "") if isinstance(recipe, dict) else ""
    return list(dict.fromkeys([*about.get("faults", ()), *[of_recipe] * bool(of_recipe)]))


def _with(faults: Sequence[str]) -> str:
    return f"with the fault {' and '.join(map(str, faults))}" if faults else "without a fault"


def _built(spec: ModelSpec, faults: Sequence[str], plant: Plant | None) -> nn.Module:
    model = create_again(spec)
    for fault in faults:
        try:
            plant(model, fault)
        except UnknownNameError as error:
            raise CheckpointError(
                f"a model {_with([fault])} was written for another vitbook ({error}): train it "
                "again with this one"
            ) from error
    return model


def _how_they_come() -> str:
    address = metadata("vitbook")["Project-URL"].partition(", ")[2]
    return (
        "not in the wheel of an index, but in the repository: "
        f'pip install --force-reinstall --no-deps "vitbook @ git+{address}"'
    )


def _resized(
    state: dict[str, Tensor],
    spec: ModelSpec,
    image_size: int | Sequence[int],
    faults: Sequence[str],
    plant: Plant | None,
) -> tuple[dict[str, Tensor], ModelSpec]:
    """The same weights for images of another size: tables of positions on another grid."""
    source = _built(spec, faults, plant)
    with torch.device("meta"):  # it only says its grids
        target = create_again(replace(spec, image_size=image_size))
    check_state(state, unique_state(source), spec.name)
    load_unique_state(source, {name: tensor.to(torch.float32) for name, tensor in state.items()})
    for path, part in source.named_modules():
        if hasattr(part, "resize"):
            part.resize(target.get_submodule(path).grid_size)
    return dict(unique_state(source)), replace(spec, image_size=target.spec.image_size)
