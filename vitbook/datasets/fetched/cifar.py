"""CIFAR-10 and CIFAR-100 from their official archives (Krizhevsky 2009).

Each file is a pickle of Python 2: ``data`` holds a row of 3072 bytes an image, the red plane, the
green, the blue, each of 32 x 32 row by row. They become PNG, which loses nothing.
"""

from pathlib import Path

import numpy as np
from einops import rearrange

from vitbook.datasets.dataset import DatasetError
from vitbook.datasets.fetched.archives import read_members
from vitbook.datasets.fetched.conversion import Converted
from vitbook.datasets.fetched.unpickle import read_pickle
from vitbook.datasets.images import encode_png
from vitbook.datasets.stored.shards import Row


def convert_cifar10(archive: Path) -> Converted:
    """
    Raises:
        DatasetError: not that archive, or one that is not safe to read.
    """
    train = [f"data_batch_{number}" for number in range(1, 6)]
    splits = {"train": train, "test": ["test_batch"]}
    return _convert(archive, "cifar-10-batches-py", splits, "batches.meta", "label_names", "labels")


def convert_cifar100(archive: Path) -> Converted:
    """With the 100 fine classes.

    Raises:
        DatasetError: not that archive, or one that is not safe to read.
    """
    splits = {"train": ["train"], "test": ["test"]}
    return _convert(archive, "cifar-100-python", splits, "meta", "fine_label_names", "fine_labels")


def _convert(
    archive: Path, folder: str, splits: dict[str, list[str]], meta: str, names: str, labels: str
) -> Converted:
    files = [meta, *(file for files in splits.values() for file in files)]
    wanted = {f"{folder}/{file}": file for file in files}
    contents = {
        wanted[name]: read_pickle(content, f"{name} of {archive}")
        for name, content in read_members(archive, wanted.__contains__)
    }
    try:
        class_names = tuple(name.decode() for name in contents[meta][names.encode()])
        rows = {
            split: [row for file in files for row in _rows(contents[file], split, labels)]
            for split, files in splits.items()
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DatasetError(
            f"{archive} is not laid out as CIFAR's archive ({type(error).__name__}: {error}): "
            f"expected {', '.join(wanted)}; fetch it from its official address"
        ) from error
    return Converted(class_names, rows)


def _rows(batch: dict, split: str, labels: str) -> list[Row]:
    images = rearrange(np.asarray(batch[b"data"]), "n (c h w) -> n c h w", c=3, h=32, w=32)
    return [
        Row(encode_png(image), f"{split}/{name.decode()}", label)
        for image, name, label in zip(
            images, batch[b"filenames"], batch[labels.encode()], strict=True
        )
    ]
