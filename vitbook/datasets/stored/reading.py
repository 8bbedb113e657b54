"""From Parquet files to images in memory."""

import hashlib
from collections.abc import Iterator

import msgspec
import numpy as np
import torch

from vitbook.datasets.catalog import ImageSet
from vitbook.datasets.dataset import Dataset, DatasetError
from vitbook.datasets.images import (
    ANYONES,
    STORED,
    ImageError,
    as_shown,
    open_image,
    pixels,
    square,
)
from vitbook.datasets.stored.shards import Row, Shards
from vitbook.errors import first_few
from vitbook.extras import from_extra

with from_extra("data"):
    from PIL import Image


class Contents:
    """What the images of a split turned out to be, gathered while they are read.

    Attributes:
        labels: in order.
        formats: JPEG, PNG.
        sizes: width and height.
    """

    def __init__(self):
        self.labels: list[int] = []
        self.formats: set[str] = set()
        self.sizes: set[tuple[int, int]] = set()
        self._digest = hashlib.sha256()

    def add(self, row: Row, image: Image.Image) -> None:
        self.labels.append(row.label)
        self.formats.add(str(image.format))
        self.sizes.add(image.size)
        content = row.encoded if image.format == "JPEG" else image.tobytes()
        self._digest.update(row.label.to_bytes(8, "big") + hashlib.sha256(content).digest())

    @property
    def digest(self) -> str:
        """Of labels and images in their order, however many shards hold them. Of a JPEG its
        bytes count, of a PNG its pixels, as every zlib packs these in its own way."""
        return "sha256:" + self._digest.hexdigest()


def read_images(
    shards: Shards, contents: Contents, anyones: bool = False
) -> Iterator[tuple[Row, Image.Image]]:
    """Every row with its image, as the file has it.

    Args:
        anyones: of more formats, and as a viewer shows it.
    """
    for shard in shards.found:
        for index, row in enumerate(shard.rows()):
            try:
                image = open_image(row.encoded, ANYONES if anyones else STORED)
            except ImageError as error:
                raise DatasetError(
                    f"row {index} of {shard.path} ({row.path}) is no image: {error}; "
                    "remove the file and fetch it again"
                ) from error
            contents.add(row, image)
            yield row, as_shown(image) if anyones else image


def read_through(shards: Shards, anyones: bool = False) -> Contents:
    """What the images of a split are: every one is decoded, and none kept."""
    contents = Contents()
    for _ in read_images(shards, contents, anyones):
        pass
    return contents


def read_split(
    image_set: ImageSet, split: str, shards: Shards, size: int | None, anyones: bool = False
) -> Dataset:
    """All images of the shards that are there, as squares of ``size`` pixels.

    Args:
        anyones: as :func:`read_images` takes it.
    """
    size = image_set.image_size if size is None else size
    images = np.empty((shards.num_rows, 3, size, size), np.uint8)
    contents = Contents()
    for index, (_, image) in enumerate(read_images(shards, contents, anyones)):
        images[index] = pixels(square(image, size))
    check_classes(split, shards, contents)
    return Dataset(
        images=torch.from_numpy(images),
        labels=torch.tensor(contents.labels, dtype=torch.int64),
        class_names=readable_names(shards),
        provenance=provenance(image_set, split, shards, contents, size),
    )


def check_classes(split: str, shards: Shards, contents: Contents) -> None:
    """Refuse a training set that has no image of some class."""
    seen, names = set(contents.labels), shards.class_names
    absent = [name for label, name in enumerate(names) if label not in seen]
    if split == "train" and absent:
        missing = shards.origin.missing
        advice = f"add {', '.join(missing)}" if missing else "fetch the set again"
        raise DatasetError(
            f"{shards.found[0].path.parent} has no image of {first_few(absent)} to train on: "
            f"expected all {len(names)} classes; {advice}"
        )


def readable_names(shards: Shards) -> tuple[str, ...]:
    """The schema's class names, in words where ``class_names.json`` beside the files has them:
    "goldfish" for n01443537, all its synonyms where the first is shared by two classes, and its
    name in the schema behind them where they are too.
    """
    names, table = shards.class_names, shards.found[0].path.parent / "class_names.json"
    if not table.exists():
        return names
    try:
        in_words = msgspec.json.decode(table.read_bytes(), type=dict[str, str])
    except msgspec.DecodeError as error:
        raise DatasetError(
            f"{table} is no table of names ({error}): expected JSON, "
            '{"n01443537": "goldfish, Carassius auratus", ...}; remove or mend it'
        ) from error
    words = [in_words.get(name, name) for name in names]
    first = [word.split(",")[0] for word in words]
    long = [
        word if words.count(word) == 1 else f"{word} ({name})"
        for name, word in zip(names, words, strict=True)
    ]
    return tuple(
        short if first.count(short) == 1 else word for short, word in zip(first, long, strict=True)
    )


def provenance(
    image_set: ImageSet, split: str, shards: Shards, contents: Contents, size: int
) -> dict[str, str | int]:
    """What the ledger keeps of a data set. Its name cannot be taken for the official set's where
    the images are not the official ones, or not all of them."""
    images, official = len(contents.labels), image_set.splits[split]
    found, missing = shards.origin.found, shards.origin.missing
    notes = alterations(image_set, shards, contents)
    if images != official:
        notes = (*notes, f"{images:,} images")
    resized = "" if contents.sizes == {(size, size)} else f"; centre square, resized to {size} px"
    about: dict[str, str | int] = {
        "name": image_set.title + (f" ({', '.join(notes)})" if notes else ""),
        "split": split,
        "source": image_set.archive.url,
        "rule": image_set.rule + resized,
        "pictures": images,
        "format": " and ".join(sorted(contents.formats)),
        "shards": f"{len(found)} of {len(found) + len(missing)}",
        "digest": contents.digest,
    }
    if missing:
        lost = f"{official - images:,} of {official:,} images"
        about["missing"] = f"{', '.join(missing)} ({lost})"
    return about


def alterations(image_set: ImageSet, shards: Shards, contents: Contents) -> tuple[str, ...]:
    """How the stored images differ from the official ones: what they show of it, and what the
    files say of those that they were packed from."""
    notes = list(shards.origin.notes)
    if image_set.lossless and "JPEG" in contents.formats:
        notes.append("JPEG copy")
    width, height = next(iter(contents.sizes), (0, 0))
    if len(contents.sizes) == 1 and width == height != image_set.original_size:
        notes.append(f"{width} px copy")
    return tuple(dict.fromkeys(notes))
