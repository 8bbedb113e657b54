"""Parquet files in the layout of the Hugging Face Hub: images in their encoded form.

``<split>-00000-of-00003.parquet`` holds a column ``image`` of struct(bytes, path), a column
``label`` of int64 and, in the schema's metadata under ``huggingface``, the names of the classes.
The Hub calls the columns of CIFAR ``img`` and ``fine_label``: these are read too.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec

from vitbook.datasets.catalog import ImageSet
from vitbook.datasets.dataset import DatasetError
from vitbook.extras import from_extra

with from_extra("data"):
    import pyarrow as pa
    import pyarrow.parquet as pq

_IMAGE_COLUMNS = ("image", "img")
_LABEL_COLUMNS = ("label", "fine_label")
_FAULTS = (pa.ArrowException, OSError)
_AT_ONCE = 100_000_000  # bytes that are read together, about: photographs may have millions each


def shard_name(split: str, index: int, total: int) -> str:
    return f"{split}-{index:05}-of-{total:05}.parquet"


@dataclass(frozen=True)
class Row:
    """An image in its encoded form.

    Attributes:
        encoded: a JPEG or PNG file.
        path: the name it had, for people.
        label: index into the class names.
    """

    encoded: bytes
    path: str
    label: int


@dataclass(frozen=True)
class Packed:
    """What a packed shard says of the files that it was made from; empty in all others.

    Attributes:
        notes: how their images differed from the official ones.
        found: names of the files that were there.
        missing: names of the files that were not.
    """

    notes: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


class Shard:
    """One Parquet file, its layout checked."""

    def __init__(self, path: Path):
        self.path = path
        try:
            with pq.ParquetFile(path) as file:
                self.num_rows, self._schema = file.metadata.num_rows, file.schema_arrow
        except _FAULTS as error:
            raise _damaged(path, error) from error
        self._image = self._column(_IMAGE_COLUMNS, _is_encoded, "struct(bytes, path)")
        self._label = self._column(_LABEL_COLUMNS, pa.types.is_integer, "int64")

    def _column(self, names, fits, kind: str) -> str:
        for name in names:
            if name in self._schema.names and fits(self._schema.field(name).type):
                return name
        came = ", ".join(f"{field.name} ({field.type})" for field in self._schema)
        raise DatasetError(
            f"{self.path} has the columns {came or 'none'}: expected {' or '.join(names)} as "
            f"{kind}; keep only the Hub's layout of images here"
        )

    @cached_property
    def class_names(self) -> tuple[str, ...]:
        """As the schema's metadata have them."""
        try:
            about = json.loads(self._schema.metadata[b"huggingface"])
            return tuple(about["info"]["features"][self._label]["names"])
        except (KeyError, TypeError, ValueError) as error:
            raise DatasetError(
                f"{self.path} does not name its classes: expected them in the schema's metadata, "
                f"huggingface: info.features.{self._label}.names; write it with `vitbook data pack`"
            ) from error

    @cached_property
    def packed(self) -> "Packed":
        about = (self._schema.metadata or {}).get(b"vitbook")
        if about is None:
            return Packed()
        return msgspec.json.decode(about, type=Packed)

    def rows(self) -> Iterator[Row]:
        """Each with an image and a label that a class has; else it is refused."""
        classes, index = len(self.class_names), -1
        for batch in self._batches():
            images = batch.column(self._image).to_pylist()
            for image, label in zip(images, batch.column(self._label).to_pylist(), strict=True):
                index += 1
                if image is None or image["bytes"] is None:
                    raise DatasetError(
                        f"row {index} of {self.path} holds no image: expected its bytes, not "
                        "only a path; fetch the file again"
                    )
                if label is None or not 0 <= label < classes:
                    raise DatasetError(
                        f"row {index} of {self.path} has label {label}: expected 0 to "
                        f"{classes - 1}, as it names {classes} classes; fetch the file again"
                    )
                yield Row(image["bytes"], image["path"] or "", label)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            with pq.ParquetFile(self.path, page_checksum_verification=True) as file:
                size = max(1, self.path.stat().st_size)
                rows = min(1000, max(1, _AT_ONCE * self.num_rows // size))
                yield from file.iter_batches(rows, columns=[self._image, self._label])
        except _FAULTS as error:
            raise _damaged(self.path, error) from error


def _is_encoded(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) and {"bytes", "path"} <= {field.name for field in kind}


def _damaged(path: Path, error: Exception) -> DatasetError:
    reason = str(error).splitlines()[0].rstrip(".")
    return DatasetError(f"{path} is damaged or cut short ({reason}): remove it and fetch it again")


@dataclass(frozen=True)
class Shards:
    """The files of one split.

    Attributes:
        found: in order.
        absent: names of those that are not there.
    """

    found: tuple[Shard, ...]
    absent: tuple[str, ...]

    @property
    def origin(self) -> Packed:
        """The files that the images come from: those that were packed, if all of that is here,
        else these. Packing changes neither what is missing nor how much of a set there is."""
        packed, names = self.found[0].packed, tuple(shard.path.name for shard in self.found)
        if packed.found and not self.absent:
            return packed
        return Packed(packed.notes, names, self.absent + packed.missing)

    @property
    def num_rows(self) -> int:
        return sum(shard.num_rows for shard in self.found)

    @property
    def num_bytes(self) -> int:
        return sum(shard.path.stat().st_size for shard in self.found)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The same in every file."""
        first = self.found[0]
        for shard in self.found[1:]:
            if shard.class_names != first.class_names:
                raise DatasetError(
                    f"{shard.path} names other classes than {first.path.name}: expected files of "
                    "one data set; remove what does not belong"
                )
        return first.class_names


def find_shards(folder: Path, split: str) -> Shards | None:
    """The files of a split that are in a folder; None if there is none."""
    # The Hub once added a hash to the name.
    pattern = re.compile(rf"{re.escape(split)}-(\d{{5}})-of-(\d{{5}})(-[0-9a-f]{{16}})?\.parquet")
    found: dict[int, Path] = {}
    totals = set()
    for path in sorted(folder.glob(f"{split}-*.parquet")):
        if match := pattern.fullmatch(path.name):
            index, total = int(match[1]), int(match[2])
            totals.add(total)
            if len(totals) > 1 or index in found or index >= total:
                raise DatasetError(
                    f"{path} does not fit the other {split} files of its folder: expected one "
                    "division, 00000-of-N and so on; remove what does not belong"
                )
            found[index] = path
    if not found:
        return None
    total = totals.pop()
    absent = tuple(shard_name(split, i, total) for i in range(total) if i not in found)
    return Shards(tuple(Shard(found[i]) for i in sorted(found)), absent)


def stored_splits(image_set: ImageSet, root: Path) -> dict[str, Shards]:
    """What is here of a data set."""
    folder = root / image_set.name
    if not (splits := find_splits(folder, image_set.splits)):
        raise DatasetError(
            f"{folder} holds no Parquet files: run `vitbook data fetch {image_set.name}`, or set "
            "VITBOOK_DATA to where they are"
        )
    return splits


def find_splits(folder: Path, splits: Iterable[str]) -> dict[str, Shards]:
    """Those of the splits that have files in a folder."""
    found = {split: find_shards(folder, split) for split in splits}
    return {split: shards for split, shards in found.items() if shards is not None}
