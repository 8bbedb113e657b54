"""CIFAR-10 and CIFAR-100 from their official archives (Krizhevsky 2009).

Each file is a pickle of Python 2: ``data`` holds a row of 3072 bytes an image, the red plane, the
green, the blue, each of 32 x 32 row by row. They become PNG, which loses nothing.
"""

import io
import pickle
from pathlib import Path

from einops import rearrange

from vitbook.datasets.dataset import DatasetError
from vitbook.datasets.fetched.archives import read_members
from vitbook.datasets.fetched.conversion import Converted
from vitbook.datasets.images import encode_png
from vitbook.datasets.stored.shards import Row

# All that an array of numbers asks for; a pickle is a program, and may ask for any function.
_ARRAYS = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
}


class PlainUnpickler(pickle.Unpickler):
    """Reads plain values and arrays, and calls nothing else that a pickle names."""

    def find_class(self, module: str, name: str) -> object:
        if (module, name) not in _ARRAYS:
            raise DatasetError(
                f"a pickle is refused, nothing of it was run: it asks for {module}.{name}, "
                "expected plain values and numpy arrays only; fetch the archive from its official "
                "address"
            )
        return super().find_class(module, name)


def convert_cifar10(archive: Path) -> Converted:
    train = [f"data_batch_{number}" for number in range(1, 6)]
    splits = {"train": train, "test": ["test_batch"]}
    return _convert(archive, splits, "batches.meta", "label_names", "labels")


def convert_cifar100(archive: Path) -> Converted:
    """With the 100 fine classes."""
    splits = {"train": ["train"], "test": ["test"]}
    return _convert(archive, splits, "meta", "fine_label_names", "fine_labels")


def _convert(
    archive: Path, splits: dict[str, list[str]], meta: str, names: str, labels: str
) -> Converted:
    wanted = {meta, *(file for files in splits.values() for file in files)}
    contents = {
        Path(name).name: PlainUnpickler(io.BytesIO(content), encoding="bytes").load()
        for name, content in read_members(archive, lambda name: Path(name).name in wanted)
    }
    class_names = tuple(name.decode() for name in contents[meta][names.encode()])
    rows = {
        split: [row for file in files for row in _rows(contents[file], split, labels)]
        for split, files in splits.items()
    }
    return Converted(class_names, rows)


def _rows(batch: dict, split: str, labels: str) -> list[Row]:
    images = rearrange(batch[b"data"], "n (c h w) -> n c h w", c=3, h=32, w=32)
    named = zip(images, batch[b"filenames"], batch[labels.encode()], strict=True)
    return [
        Row(encode_png(image), f"{split}/{name.decode()}", label) for image, name, label in named
    ]
