"""An unfinished run on disk: all that it takes to go on to the same bits."""

import json
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from vitbook.files import write_atomically
from vitbook.model_utilities import digest
from vitbook.models.weights.renaming import check_state
from vitbook.runs.recipe import DEFAULTS
from vitbook.training.engine.differences import differences
from vitbook.training.engine.muon import AnyOptimizer
from vitbook.training.engine.tied_weights import load_unique_state, unique_state


class UnfinishedRunError(ValueError):
    """An unfinished run that is damaged, or that is another run."""


def save_state(
    path: str | Path,
    model: nn.Module,
    mean: nn.Module | None,
    optimizer: AnyOptimizer,
    progress: dict,
    identity: dict,
) -> None:
    """Write weights, their mean, the optimizer's moments and the progress, whole or not at all.

    There is no state of a random generator in it: chance is a function of the seed and the step.

    Args:
        progress: what the run has reached, as JSON takes it.
        identity: what a run must share to be the same run.
    """
    tensors = {f"model.{name}": tensor for name, tensor in unique_state(model).items()}
    if mean is not None:
        tensors |= {f"mean.{name}": tensor for name, tensor in unique_state(mean).items()}
    for index, moments in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": tensor for name, tensor in moments.items()}
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    about = {"progress": json.dumps(progress), "identity": json.dumps(identity, sort_keys=True)}
    about["digest"] = digest(tensors, about)
    write_atomically(path, save(tensors, metadata=about))


def load_state(
    path: str | Path,
    model: nn.Module,
    mean: nn.Module | None,
    optimizer: AnyOptimizer,
    identity: dict,
) -> dict | None:
    """Fill model, mean and optimizer from an unfinished run, and return its progress.

    Returns:
        None if there is no such file: the run starts.

    Raises:
        UnfinishedRunError: the file is damaged, or holds another run; nothing was filled.
        OSError: the file is there and cannot be read.
    """
    path = Path(path)
    if not path.is_file():
        return None
    path.open("rb").close()  # says truly why it cannot be read, where safetensors does not
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}
        if "digest" not in about:
            raise ValueError("of an earlier vitbook, which kept no digest")
        if about.pop("digest") != digest(tensors, about):
            raise ValueError("its bytes are not those that were written")
        progress, theirs = json.loads(about["progress"]), json.loads(about["identity"])
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise UnfinishedRunError(
            f"{path} is damaged or no unfinished run ({error}): remove it, and the run starts anew"
        ) from error
    if "recipe" in theirs:  # a number that recipes have gained since is as they have it by default
        theirs["recipe"] = DEFAULTS | theirs["recipe"]
    changed = [
        f"its {field} is {then!r}, this one's is {now!r}"
        for field, now, then in differences(json.loads(json.dumps(identity)), theirs)
    ]
    if changed:
        raise UnfinishedRunError(
            f"{path} is of another run: {'; '.join(changed[:3])}: finish that one by its own "
            "command, choose another folder, or remove the file"
        )

    def part(prefix: str) -> dict[str, Tensor]:
        return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}

    modules = {"model.": model} | ({} if mean is None else {"mean.": mean})
    try:
        for prefix, module in modules.items():
            check_state(part(prefix), unique_state(module), path.name)
    except ValueError as error:
        raise UnfinishedRunError(f"{path} is of another model: {error}") from error
    moments: dict[int, dict[str, Tensor]] = {}
    for name, tensor in part("optimizer.").items():
        index, kind = name.split(".", 1)
        moments.setdefault(int(index), {})[kind] = tensor
    for prefix, module in modules.items():
        load_unique_state(module, part(prefix))
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": moments, "param_groups": groups})
    return progress
