"""What the archive of a data set is turned into, and how that is laid down."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from vitbook.datasets.stored.shard_writer import write_shard
from vitbook.datasets.stored.shards import Row, shard_name
from vitbook.files import write_atomically

_SEED = 0


@dataclass(frozen=True)
class Converted:
    """The whole of a data set in memory, images encoded.

    Attributes:
        class_names: in the order of the labels.
        rows: split -> its images, in an order that depends on the archive alone.
        beside: files to keep with them: the licence, readable class names.
    """

    class_names: tuple[str, ...]
    rows: dict[str, list[Row]]
    beside: dict[str, bytes] = field(default_factory=dict)


def write_converted(folder: Path, converted: Converted, num_shards: dict[str, int]) -> None:
    """Shuffle each split, always alike, and write it as so many Parquet files of equal length."""
    for split, rows in converted.rows.items():
        order = np.random.RandomState(_SEED).permutation(len(rows))  # its stream never changes
        total = num_shards.get(split, 1)
        for index, part in enumerate(np.array_split(order, total)):
            path = folder / shard_name(split, index, total)
            write_shard(path, [rows[i] for i in part], converted.class_names)
    for name, content in converted.beside.items():
        write_atomically(folder / name, content)
