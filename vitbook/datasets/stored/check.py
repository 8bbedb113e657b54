"""Looking at every image of a data set, to be sure of it."""

from dataclasses import dataclass
from pathlib import Path

from vitbook.datasets.catalog import ImageSet
from vitbook.datasets.dataset import DatasetError
from vitbook.datasets.stored.reading import Contents, check_classes, provenance, read_images
from vitbook.datasets.stored.shards import Shards, find_splits


@dataclass(frozen=True)
class Report:
    """One split, every image of it decoded.

    Attributes:
        provenance: as ``Dataset`` has it.
        per_class: images of each class, in the order of the labels.
        sizes: width and height of the images.
    """

    provenance: dict[str, str | int]
    per_class: tuple[int, ...]
    sizes: tuple[tuple[int, int], ...]


def check(image_set: ImageSet, root: Path, anyones: bool = False) -> list[Report]:
    """Read every file and decode every image.

    Args:
        anyones: as :func:`.reading.read_images` takes it.

    Raises:
        DatasetError: none is here, or the first thing that is wrong with them.
    """
    splits = find_splits(root / image_set.name, image_set.splits)
    if not splits:
        raise DatasetError(
            f"{root / image_set.name} holds no Parquet files: run "
            f"`vitbook data fetch {image_set.name}`, or set VITBOOK_DATA to where they are"
        )
    return [_check_split(image_set, split, shards, anyones) for split, shards in splits.items()]


def _check_split(image_set: ImageSet, split: str, shards: Shards, anyones: bool) -> Report:
    contents = Contents()
    for _ in read_images(shards, contents, anyones):
        pass
    check_classes(split, shards, contents)
    counts = [0] * len(shards.class_names)
    for label in contents.labels:
        counts[label] += 1
    about = provenance(image_set, split, shards, contents, image_set.image_size)
    return Report(about, tuple(counts), tuple(sorted(contents.sizes)))
