"""Pictures in the size that was asked for, as numbers: no start decodes them a second time."""

import errno
import json
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from vitbook.datasets.dataset import Dataset
from vitbook.files import could_not_write
from vitbook.model_utilities import digest


def keep_squares(path: Path, dataset: Dataset) -> None:
    """Write them, with a digest by which damage is found."""
    tensors = {"images": dataset.images, "labels": dataset.labels}
    words = {"classes": json.dumps(dataset.class_names), "about": json.dumps(dataset.provenance)}
    making = path.with_name(".making")
    try:
        save_file(tensors, making, metadata=words | {"digest": digest(tensors, words)})
        making.rename(path)
    except (OSError, SafetensorError) as error:
        making.unlink(missing_ok=True)
        error = error if isinstance(error, OSError) else OSError(errno.ENOSPC, str(error))
        raise could_not_write(path, error, dataset.images.numel()) from error


def read_squares(path: Path) -> Dataset | None:
    """None if they are not there, or damaged: then they are made again."""
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            words = file.metadata()
            tensors = {name: file.get_tensor(name) for name in ("images", "labels")}
        if words.pop("digest") != digest(tensors, words):
            return None
        names, about = tuple(json.loads(words["classes"])), json.loads(words["about"])
    except (SafetensorError, OSError, AttributeError, KeyError, ValueError):
        return None
    return Dataset(tensors["images"], tensors["labels"], names, about)
