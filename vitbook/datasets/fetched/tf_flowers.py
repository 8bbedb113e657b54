"""TF-Flowers from its official archive: photos of many sizes in five folders."""

from pathlib import Path

from vitbook.datasets.fetched.archives import read_members
from vitbook.datasets.fetched.conversion import Converted
from vitbook.datasets.stored.shards import Row

_LICENSE = "flower_photos/LICENSE.txt"


def convert_tf_flowers(archive: Path) -> Converted:
    """The set has no split: of the photos of a class, sorted by name, every fifth is to test."""
    photos: dict[str, dict[str, bytes]] = {}
    beside = {}
    for name, content in read_members(archive, _is_wanted):
        if name == _LICENSE:
            beside["LICENSE.txt"] = content
        else:
            _, flower, file = name.split("/")
            photos.setdefault(flower, {})[file] = content
    class_names = tuple(sorted(photos))
    rows: dict[str, list[Row]] = {"train": [], "test": []}
    for label, flower in enumerate(class_names):
        for turn, file in enumerate(sorted(photos[flower])):
            split = "test" if turn % 5 == 4 else "train"
            rows[split].append(Row(photos[flower][file], f"{flower}/{file}", label))
    return Converted(class_names, rows, beside)


def _is_wanted(name: str) -> bool:
    parts = name.split("/")
    is_photo = len(parts) == 3 and parts[2].endswith(".jpg") and not parts[2].startswith(".")
    return name == _LICENSE or (parts[0] == "flower_photos" and is_photo)
